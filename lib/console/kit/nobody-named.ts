import { inArray } from 'drizzle-orm';
import * as z from 'zod';

import { events } from '../../../drizzle/schema.ts';
import { readDeliveryId } from '../../bus/deliveries/delivery-id.ts';
import { NAMES_A_PERSON } from './replay-request.ts';
import type { Database } from '../../platform/db/database.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { requireValid } from '../../platform/http/validated.ts';
import { personalTexts } from '../../bus/catalog/personal-data.ts';
import { hasPersonalData } from '../../platform/masking/personal.ts';

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
  { parameters, body }: { readonly parameters: Readonly<Record<string, string>>; readonly body: unknown },
): Promise<void> {
  const { data } = worded.safeParse(body);
  const words = data?.reason ?? data?.note;
  if (!data || !words) return;
  const deliveries = [parameters['deliveryId'] ?? [], data.deliveryIds ?? []].flat();
  const ids = deliveries.flatMap((id) => readDeliveryId(id)?.eventId ?? []);
  const event = uuidOrNull(parameters['eventId']);
  if (event !== null) ids.push(event);
  const incident = uuidOrNull(parameters['incidentId'] ?? data.incident);
  if (incident === null && ids.length === 0) return;
  const db = await open();
  if (incident !== null) ids.push(...(await eventsOf(db, incident)));
  await requireNobodyOf(db, words, ids, data.reason ? 'reason' : 'note');
}

/** Requires that words name nobody of these events. @param ids at most some thousand. @throws Problem as above */
export async function requireNobodyOf(
  db: Database,
  words: string,
  ids: readonly string[],
  field: 'reason' | 'note' = 'reason',
): Promise<void> {
  const { id, topic, version, payload } = events;
  const found = await db
    .select({ topic, version, payload })
    .from(events)
    .where(inArray(id, [...ids]));
  const isNamed = found.some((event) =>
    hasPersonalData(words, personalTexts(event.topic, event.payload, event.version)),
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

async function eventsOf(db: Database, incident: string): Promise<readonly string[]> {
  const found = await run<{ id: string }>(driverOf(db), { text: CONCERNED, values: [incident] });
  return found.map(({ id }) => id);
}

/** The events of the newest hundred dead letters of an incident. */
const CONCERNED = `
  select exceptions.event_id::text as id from incidents, lateral (
    select event_id from exceptions where exceptions.error_group = incidents.error_group
    order by exceptions.error_group desc, dead_lettered_at desc limit 100
  ) as exceptions
  where incidents.id = $1::uuid`;
