import { inArray } from 'drizzle-orm';
import * as z from 'zod';

import { events } from '../../../drizzle/schema.ts';
import { readDeliveryId } from '../../bus/deliveries/delivery-id.ts';
import { NAMES_A_PERSON } from './replay-request.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { requireValid } from '../../platform/http/validated.ts';
import { personalTexts } from '../../bus/catalog/personal-data.ts';
import { hasPersonalData } from '../../platform/masking/personal.ts';

/** What an operator's action is about, and the reason or note that is kept of it forever. */
export interface Reasoned {
  readonly parameters: Readonly<Record<string, string>>;
  readonly body: unknown;
}

const worded = z.object({
  reason: z.string().nullish(),
  note: z.string().nullish(),
  deliveryIds: z.array(z.string()).nullish(),
  incident: z.string().nullish(),
});

/**
 * Requires that the words of an action name nobody whose personal data its event, delivery or incident has. The operators'
 * log refuses changes, so a name in it could not be erased. Whatever looks like personal data is refused by the words'
 * own schema, for every action.
 *
 * @throws Problem 400 `validation_failed` for `reason` or `note`.
 */
export async function requireNobodyNamed(
  open: () => Promise<Database>,
  { parameters, body }: Reasoned,
): Promise<void> {
  const { data } = worded.safeParse(body);
  const words = data?.reason ?? data?.note;
  if (!data || !words) return;
  const deliveries = [
    ...(parameters['deliveryId'] ? [parameters['deliveryId']] : []),
    ...(data.deliveryIds ?? []),
  ];
  const asked = {
    event: uuidOrNull(parameters['eventId']),
    incident: uuidOrNull(parameters['incidentId'] ?? data.incident),
    delivered: deliveries.slice(0, MOST_DELIVERIES).flatMap((id) => readDeliveryId(id)?.eventId ?? []),
  };
  if (asked.event === null && asked.incident === null && asked.delivered.length === 0) return;
  const found = await run<Payload>(driverOf(await open()), {
    text: CONCERNED,
    values: [JSON.stringify(asked)],
  });
  requireUnnamed(data.reason ? 'reason' : 'note', words, found);
}

/** Requires that words name nobody of these events. @param ids at most 1,000. @throws Problem as above */
export async function requireNobodyOf(db: Database, reason: string, ids: readonly string[]): Promise<void> {
  const { id, topic, version, payload } = events;
  const found = await db
    .select({ topic, version, payload })
    .from(events)
    .where(inArray(id, [...ids]));
  requireUnnamed('reason', reason, found);
}

interface Payload {
  readonly topic: string;
  readonly version: number;
  readonly payload: unknown;
}

function requireUnnamed(field: 'reason' | 'note', words: string, payloads: readonly Payload[]): void {
  const isNamed = payloads.some(({ topic, payload, version }) =>
    hasPersonalData(words, personalTexts(topic, payload, version)),
  );
  if (isNamed) refuseNamed(field, words);
}

/** Refuses the words of an action because they name a person. @throws Problem 400 `validation_failed`, always */
export function refuseNamed(field: 'reason' | 'note', words: string): void {
  const refused = z.string().refine(() => false, NAMES_A_PERSON);
  requireValid({ [field]: words }, z.object({ [field]: refused }));
}

function uuidOrNull(text: string | null | undefined): string | null {
  return z.uuid().safeParse(text).data ?? null;
}

/** As many as a replay may name. */
const MOST_DELIVERIES = 1000;

/** Of an incident the newest dead letters. */
const MOST_EVENTS = 100;

const CONCERNED = `
  with asked as materialized (
    select $1::text::jsonb as asked
  ),
  incident as materialized (
    select error_group from asked join incidents on id = (asked ->> 'incident')::uuid
  ),
  concerned as (
    select (asked ->> 'event')::uuid as event_id from asked
    union
    select id::uuid from asked, jsonb_array_elements_text(asked -> 'delivered') as named(id)
    union
    select event_id from (
      select dead.event_id from incident, lateral (
        select event_id from exceptions where exceptions.error_group = incident.error_group
        order by exceptions.error_group desc, dead_lettered_at desc limit ${MOST_EVENTS}
      ) as dead
    ) as newest
  )
  select topic, version, payload from events where id in (select event_id from concerned)`;
