import type { PaymentPart } from '../../../../drizzle/schema.ts';
import type { Provider } from '../../../platform/config.ts';
import type { Database } from '../../../platform/db/connect.ts';
import { driverOf, run } from '../../../platform/db/statement.ts';
import { DAY, MINUTE } from '../../../platform/time.ts';

/** An intent that its provider is to be asked about. */
export interface AskedIntent {
  readonly id: string;
  /** The parts that have been emitted. */
  readonly parts: readonly PaymentPart[];
}

/** After its first 15 minutes (the column's default), an intent is asked about again as late as it is old, within these. */
const SHORTEST_WAIT_MS = 10 * MINUTE;

/** Money that is reserved may be captured any day, and the booking waits for it. */
const LONGEST_WAIT_MS = 1 * DAY;

/** What is captured can only be refunded, at our own side's request. */
const LONGEST_WAIT_CAPTURED_MS = 7 * DAY;

/** Vipps refunds what was captured up to a year ago; a reservation lasts half a year at most. */
const ASKED_FOR_MS = 365 * DAY;

/**
 * Finds the intents that are due, those that have been due longest first: intents without money before those with it,
 * so that captures are not late because there are many captured intents.
 */
export async function dueIntents(
  db: Database,
  provider: Provider,
  { now, limit }: { readonly now: number; readonly limit: number },
): Promise<readonly AskedIntent[]> {
  return await run<AskedIntent>(driverOf(db), {
    text: `
      with clock as materialized (select $2::text::timestamptz as now),
      of_state as (
        select name, now, now + longest * interval '1 millisecond' as until from clock,
          (values ('created', $4::float8), ('captured', $5::float8), ('refunded', $5::float8)) as state (name, longest)
      )
      select id, parts from of_state, lateral (
        (
          select id, parts, state, ask_at from payment_intents
          where provider = $1::text and state = of_state.name and state <> 'failed' and ask_at <= of_state.now
          order by ask_at limit $3::int
        )
        union all
        (
          -- A clock that was ahead has put them off.
          select id, parts, state, ask_at from payment_intents
          where provider = $1::text and state = of_state.name and state <> 'failed' and ask_at > of_state.until
          order by ask_at limit $3::int
        )
      ) as due
      order by state <> 'created', ask_at limit $3::int`,
    values: [provider, new Date(now).toISOString(), limit, LONGEST_WAIT_MS, LONGEST_WAIT_CAPTURED_MS],
  });
}

/** What was learnt of an intent. */
export type Answer =
  /** It is asked about later, and the later the older it is. */
  | 'open'
  /** Nothing more can happen to it. */
  | 'over'
  /** It is asked about again soon: its log was not read, or a webhook of it may still be on its way. */
  | 'soon';

/** Plans when each intent is asked about next. */
export async function planAsking(
  db: Database,
  answers: ReadonlyMap<string, Answer>,
  now: number,
): Promise<void> {
  if (answers.size === 0) return;
  const asked = [...answers].map(([id, answer]) => ({ id, answer }));
  await run(driverOf(db), {
    text: PLAN,
    values: [
      JSON.stringify(asked),
      new Date(now).toISOString(),
      SHORTEST_WAIT_MS,
      LONGEST_WAIT_MS,
      LONGEST_WAIT_CAPTURED_MS,
      ASKED_FOR_MS,
    ],
  });
}

const PLAN = `
  with clock as (select $2::text::timestamptz as now),
  asked as (select id, answer from jsonb_to_recordset($1::text::jsonb) as asked (id text, answer text)),
  -- Waits for no outcome that is being emitted, so that there is no deadlock: it is asked about again by the next step.
  intent as materialized (
    select payment_intents.id, state, changed_at, answer from asked join payment_intents using (id)
    for no key update of payment_intents skip locked
  )
  update payment_intents set ask_at = case
    when answer = 'over' or intent.changed_at < now - $6::float8 * interval '1 millisecond' then null
    when answer = 'soon' then now + $3::float8 * interval '1 millisecond'
    else now + greatest($3::float8, least(
      extract(epoch from now - intent.changed_at) * 1000,
      case when intent.state = 'created' then $4::float8 else $5::float8 end
    )) * interval '1 millisecond'
  end
  from clock, intent where payment_intents.id = intent.id`;
