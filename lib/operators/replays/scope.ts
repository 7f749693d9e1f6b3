import type { ReplayRecord } from './read.ts';
import { EVER } from '../page/links.ts';
import { count, counted, lastWords } from '../page/words.ts';

/** What was asked for, in words: `to ledger, one error, dead in the last 24 hours`. */
export function scopeWords({ request, topic }: Pick<ReplayRecord, 'request' | 'topic'>): string {
  const { subscriber, group, since, deliveryIds, include, limit } = request;
  const isAll = include === 'all';
  const words = [
    typeof subscriber === 'string' ? `to ${subscriber}` : topic === null ? null : 'to every subscriber',
    typeof group === 'string' ? 'one error' : null,
    Array.isArray(deliveryIds) ? counted(deliveryIds.length, 'chosen delivery') : null,
    typeof since === 'string' && since !== EVER
      ? `${isAll ? 'ended' : 'dead'} in the ${lastWords(since)}`
      : null,
    isAll ? 'delivered ones too' : null,
    typeof limit === 'number' ? `the oldest ${count(limit)}` : null,
  ];
  return words.filter((word) => word !== null).join(', ');
}
