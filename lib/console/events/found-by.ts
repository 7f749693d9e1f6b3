import { idsIn } from '../../components/identifiers/identifier.ts';
import type { LoadedEvent } from './load.ts';

/**
 * Says by what an event was found: its keys, and the fields of its payload.
 *
 * Texts that the catalog marks as personal data are not among them, nor is a provider's body but for the ids that it
 * declares, so that nobody learns by a search who is in an event.
 *
 * @returns nothing for an event that does not have the text: the index has only hashes.
 */
export function foundBy(event: LoadedEvent, q: string): string[] {
  const { item, correlationId, causationId, orderingKey, dedupeKey } = event;
  const keys = [
    // The first event of a correlation names itself.
    ['correlation id', correlationId === item.eventId ? null : correlationId],
    ['causation id', causationId],
    ['ordering key', orderingKey],
    ['deduplication key', dedupeKey],
  ] as const;
  return [...keys.filter(([, value]) => value === q).map(([name]) => name), ...fieldsOf(event, q)];
}

function fieldsOf({ item: { topic }, payload, version }: LoadedEvent, q: string): string[] {
  const fields = idsIn({ topic, payload, version }).filter(({ text }) => text === q);
  return fields.map(({ pointer }) => `payload ${pointer}`);
}
