import { ALL_TIME } from '../page/links.ts';
import { count, quantity, lastPeriod } from '../page/words.ts';
import type { ReplayRecord } from './read.ts';

/** Says in words which deliveries were requested: `to ledger, one error, dead-lettered in the last 24 hours`. */
export function scopeWords({ request, topic }: Pick<ReplayRecord, 'request' | 'topic'>): string {
  const { subscriber, group, incident, since, deliveryIds, include, limit } = request;
  const isAll = include === 'all';
  const ended = isAll ? 'ended' : include === 'dismissed' ? 'dismissed' : 'dead-lettered';
  const words = [
    typeof subscriber === 'string' ? `to ${subscriber}` : topic === null ? null : 'to every subscriber',
    typeof group === 'string' ? 'one error' : null,
    typeof incident === 'string' ? 'one incident' : null,
    include === 'dismissed' ? 'dismissed ones' : null,
    Array.isArray(deliveryIds) ? quantity(deliveryIds.length, 'selected delivery') : null,
    typeof since === 'string' && since !== ALL_TIME ? `${ended} in the ${lastPeriod(since)}` : null,
    isAll ? 'including delivered ones' : null,
    typeof limit === 'number' ? `the oldest ${count(limit)}` : null,
  ];
  return words.filter((word) => word !== null).join(', ');
}
