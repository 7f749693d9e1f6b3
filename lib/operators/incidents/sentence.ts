import type { LastError } from '../shapes.ts';
import { quantity } from '../page/words.ts';

interface Facts {
  readonly topic: string;
  readonly subscriber: string;
  readonly state: 'happening' | 'owed' | 'closed';
  readonly lastError: LastError;
  readonly blockedLanes: number;
  readonly waiting: number;
  readonly owed: number;
}

/** Says in words what is wrong: `ledger answers 503 on payment.captured: 1 lane is blocked, 12 deliveries wait.` */
export function sentenceOf({ topic, subscriber, state, lastError, ...of }: Facts): string {
  const { kind } = lastError;
  if (kind === 'skipped') return skippedWords(topic, subscriber, of.owed);
  const [now, before] = predicates(kind);
  if (state === 'happening') {
    const dead = of.owed > 0 ? `, ${quantity(of.owed, 'dead letter')} so far` : '';
    const are = of.blockedLanes === 1 ? 'is' : 'are';
    const wait = `${quantity(of.waiting, 'delivery')} ${of.waiting === 1 ? 'waits' : 'wait'}`;
    return `${subscriber} ${now} on ${topic}: ${quantity(of.blockedLanes, 'lane')} ${are} blocked, ${wait}${dead}.`;
  }
  const what = `${subscriber} ${before} on ${topic}`;
  if (state === 'closed') return `${what}: over, and nothing is left of it.`;
  if (of.owed === 0) return `${what}: its dead letters are being delivered again.`;
  return `${what}: ${quantity(of.owed, 'dead letter')} left.`;
}

/** A lane that was skipped is not blocked by it, so this is never happening. */
function skippedWords(topic: string, subscriber: string, owed: number): string {
  if (owed === 0) return `An operator skipped deliveries of ${topic} to ${subscriber}. None is left.`;
  return `An operator skipped ${quantity(owed, 'delivery')} of ${topic} to ${subscriber}, which can be replayed.`;
}

/** Says how a subscriber fails, in the present and in the past. */
function predicates(kind: string): readonly [now: string, before: string] {
  const status = /^http_?(\d{3})$/i.exec(kind)?.[1];
  if (status !== undefined) return [`answers ${status}`, `answered ${status}`];
  if (/timeout/i.test(kind)) return ['does not answer in time', 'did not answer in time'];
  if (kind === 'permanent') return ['refuses deliveries', 'refused deliveries'];
  return [`fails with ${kind}`, `failed with ${kind}`];
}
