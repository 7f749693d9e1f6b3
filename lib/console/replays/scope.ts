import { ALL_TIME } from '../kit/links.ts';
import { count, groupWords, joinNames, quantity } from '../kit/words.ts';

/** What was asked for, and who got it; null before it has begun. */
interface Scope {
  readonly request: Readonly<Record<string, unknown>>;
  readonly recipients: readonly { readonly topic: string; readonly subscriber: string }[] | null;
}

/** Says in words what was replayed, and to whom: `to ledger, one error, dead-lettered in the last 24 hours`. */
export function scopeWords(replay: Scope): string {
  const { group, q, incident, since, deliveryIds, include, limit, perMinute } = replay.request;
  const isAll = include === 'all';
  const ended = isAll ? 'ended' : include === 'dismissed' ? 'dismissed' : 'dead-lettered';
  const words = [
    recipientWords(replay),
    typeof group === 'string' ? groupWords(group) : null,
    typeof q === 'string' && q !== '' ? `errors with “${q}”` : null,
    typeof incident === 'string' ? 'one incident' : null,
    include === 'dismissed' ? 'dismissed ones' : null,
    Array.isArray(deliveryIds) ? quantity(deliveryIds.length, 'selected delivery') : null,
    typeof since === 'string' && since !== ALL_TIME ? `${ended} in the last ${since}` : null,
    isAll ? 'including delivered ones' : null,
    typeof limit === 'number' ? `the oldest ${count(limit)}` : null,
    typeof perMinute === 'number' ? `${count(perMinute)} a minute` : null,
  ];
  return words.filter((word) => word !== null).join(', ') || 'all dead letters';
}

/** Names what was replayed: its topic, if it is one. */
export function nameOf({ topic, request, recipients }: Scope & { readonly topic: string | null }): string {
  const [only, ...others] = new Set(topic === null ? recipients?.map((one) => one.topic) : [topic]);
  if (only !== undefined && others.length === 0) return only;
  return Array.isArray(request['deliveryIds']) ? 'Selected deliveries' : 'Several topics';
}

/** A sentence takes no more names. */
const MOST_NAMED = 3;

/** Names only who got something: a request without a subscriber is for any that has dead letters. */
function recipientWords({ request: { subscriber }, recipients }: Scope): string | null {
  const names = [...new Set(recipients?.map((one) => one.subscriber))];
  if (names.length > MOST_NAMED) return `to ${count(names.length)} subscribers`;
  if (names.length > 0) return `to ${joinNames(names)}`;
  return typeof subscriber === 'string' ? `to ${subscriber}` : null;
}
