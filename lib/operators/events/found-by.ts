import { hidePersonalData } from '../../catalog/personal.ts';
import { isIdentifier, leavesOf } from '../../identifiers/identifier.ts';
import type { LoadedEvent } from './load.ts';

/**
 * Says by what an event was found: its keys, and the fields of its payload.
 *
 * Texts that the catalog marks as personal data are not among them, so that nobody learns by a search who is in an event.
 *
 * @returns nothing for an event that does not have the text: the index has only hashes.
 */
export function foundBy(event: LoadedEvent, q: string): string[] {
  const { id, correlationId, causationId, orderingKey, dedupeKey } = event;
  const keys = [
    // The first event of a correlation names itself.
    ['correlation id', correlationId === id ? null : correlationId],
    ['causation id', causationId],
    ['ordering key', orderingKey],
    ['deduplication key', dedupeKey],
  ] as const;
  return [
    ...keys.filter(([, value]) => value === q).map(([name]) => name),
    ...(isIdentifier(q) ? fieldsOf(event, q) : []),
  ];
}

function fieldsOf({ topic, payload, version }: LoadedEvent, q: string): string[] {
  const leaves = leavesOf(payload).filter(({ text }) => text === q);
  if (leaves.length === 0) return [];
  const { hidden } = hidePersonalData(topic, payload, version);
  const fields = leaves.flatMap(({ pointer }) => {
    // A provider's body is hidden whole, though it has ids: it is named, and the field in it is not.
    const around = hidden.find((one) => pointer === one.pointer || pointer.startsWith(`${one.pointer}/`));
    if (around?.pointer === pointer) return [];
    return [`payload ${around ? around.pointer : pointer}`.trim()];
  });
  return [...new Set(fields)];
}
