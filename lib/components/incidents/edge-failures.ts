import { DAY, MINUTE } from '../../platform/time.ts';

// Incidents of chat and of the days' budgets, which functions count in `edge_counts`, and of payment webhooks set aside.
// Nothing waits for them in the bus.

/** Two tries: a thin event that was not read by then waits for more than a moment. */
const UNREAD_AFTER_MS = 10 * MINUTE;

/** A row of `EDGE_FAILURES`. */
export interface EdgeFailure {
  readonly kind: string;
  /** Of a failing chat how the newest call has failed; of a webhook what is not plausible or read. */
  readonly outcome: string;
  readonly since: string;
}

/** What is said of an incident of a kind. */
interface EdgeWords {
  /** What is wrong; the beginning of a sentence, in lower case. */
  readonly title: string;
  /** What is to be done, or how it fails; the end of the sentence. */
  readonly message: (outcome: string) => string;
  /** The sentence once it is over. */
  readonly over: string;
}

const CHAT_FAILURES: Readonly<Record<string, string | undefined>> = {
  provider_rejected:
    'the language model refuses the requests; check ANTHROPIC_API_KEY, CHAT_MODEL and the spending limit',
  provider_unavailable: 'the language model is busy or down',
  provider_timeout: 'the language model does not answer in time',
  provider_unreachable: 'the language model cannot be reached',
  provider_bad_response: 'the language model sends unusable answers',
};

const WORDS: Readonly<Record<string, EdgeWords | undefined>> = {
  chat_failing: {
    title: 'chat fails',
    message: (outcome) => CHAT_FAILURES[outcome] ?? outcome,
    over: 'Chat failed. The newest call was answered, or nobody has called for a day.',
  },
  payment_not_plausible: {
    title: 'a payment webhook is not plausible',
    message: (detail) =>
      `${detail}; it is set aside, listed under Webhooks, and no money until it is accepted`,
    over: 'A payment webhook was not plausible. What it waited for has come, or it was accepted.',
  },
  payment_unread: {
    title: 'an object that Stripe’s event names cannot be read',
    message: (detail) =>
      `${detail}; the event is set aside, listed under Webhooks, and asked about again every five minutes`,
    over: 'A thin event of Stripe’s could not be read. Its object was read, or it was accepted.',
  },
  ...budgetWords('chat', 'chat calls', 'CHAT_DAILY_BUDGET'),
  ...budgetWords('inquiry', 'inquiries', 'INQUIRY_DAILY_BUDGET'),
};

function budgetWords(source: string, calls: string, variable: string): Readonly<Record<string, EdgeWords>> {
  return {
    [`${source}_budget_80`]: {
      title: `four fifths of the day’s ${calls} are used`,
      message: () => `when all are, visitors are refused until midnight UTC; ${variable} allows more`,
      over: `Four fifths of a day’s ${calls} were used. The day is over.`,
    },
    [`${source}_budget_100`]: {
      title: `the day’s ${calls} are used up`,
      message: () => `visitors are refused until midnight UTC; a higher ${variable} lets them in at once`,
      over: `A day’s ${calls} were used up. The day is over.`,
    },
  };
}

/** What is said of an incident of this kind; undefined for one of the bus. */
export function edgeWords(kind: string): EdgeWords | undefined {
  return Object.hasOwn(WORDS, kind) ? WORDS[kind] : undefined;
}

/** Says what is wrong: `Chat fails: the language model is busy or down.` */
export function edgeSentence({ title, over }: EdgeWords, isClosed: boolean, message: string): string {
  return isClosed ? over : `${title.charAt(0).toUpperCase()}${title.slice(1)}: ${message}.`;
}

/** So many failures without an answer between them are no accident of a single call. */
const FAILED_IN_A_ROW = 5;

/** Where answers come between: of so many calls in a row half have failed, within so long. */
const CALLS = 20;
const WITHIN_MS = 10 * MINUTE;

/** A failure that is older says nothing about now. */
const FORGOTTEN_MS = 1 * DAY;

/**
 * The parts of the statement of failures that find them, behind its `clock`.
 *
 * A rejection is told at once, because only the owner can end it: a key, a model, a spending limit. What visitors ended
 * themselves is neither a failure nor an answer.
 */
export const EDGE_FAILURES = `chat_call as materialized (
    select outcome, at, outcome like 'provider%' as has_failed, row_number() over (order by at desc) as nth
    from clock, edge_counts, unnest(recent_at) as at
    where source = 'chat' and day >= (clock.now at time zone 'utc')::date - 1
      and (outcome like 'provider%' or outcome in ('answered', 'cut_off', 'refused'))
      and at > clock.now - ${FORGOTTEN_MS} * interval '1 millisecond'
  ),
  unanswered as (
    select * from chat_call
    where has_failed and at > coalesce((select max(at) from chat_call where not has_failed), '-infinity')
  ),
  chat_failing as (
    select 'chat_failing' as kind, (array_agg(outcome order by at desc))[1] as outcome, min(at) as since
    from (
      select * from unanswered
      where (select count(*) >= ${FAILED_IN_A_ROW} or bool_or(outcome = 'provider_rejected') from unanswered)
      union all
      select chat_call.* from clock, chat_call
      where has_failed and nth <= ${CALLS} and (
        select count(*) = ${CALLS} and 2 * count(*) filter (where has_failed) >= ${CALLS}
          and min(at) > clock.now - ${WITHIN_MS} * interval '1 millisecond'
        from chat_call where nth <= ${CALLS}
      )
    ) as failing having count(*) > 0
  ),
  budget_reached as (
    select source || '_' || outcome as kind, outcome, min(at) as since
    from clock, edge_counts, unnest(recent_at) as at
    where outcome in ('budget_80', 'budget_100') and day >= (clock.now at time zone 'utc')::date - 1
      and at >= date_trunc('day', clock.now, 'UTC')
    group by source, outcome
  ),
  edge as (
    select kind, outcome, since::text as since from (
      select * from chat_failing union all select * from budget_reached
      union all
      select case reason when 'unread' then 'payment_unread' else 'payment_not_plausible' end,
        (array_agg(detail order by set_aside_at desc))[1], min(set_aside_at)
      from clock, webhooks_set_aside
      where reason = 'not_plausible'
        or (reason = 'unread' and set_aside_at < clock.now - ${UNREAD_AFTER_MS} * interval '1 millisecond')
      group by reason
    ) as found
  )`;
