import { visibleName } from '../../platform/visible.ts';
import type { HeldLane } from '../held-lanes/held-lane.ts';
import { silenceWords } from '../incidents/outage.ts';
import { below, counted, link, say, strong, toMinute } from '../kit/document.ts';
import type { Facts, Phrase } from '../kit/document.ts';
import { until } from '../kit/instants.ts';
import { topicPath } from '../kit/links.ts';
import { count, deliveriesWait, quantity } from '../kit/words.ts';
import { ageWords, shareWords, timesWords } from './figures.ts';
import type { SubscriberHealth } from './read.ts';
import { deadLetterPhrase, limitPhrase, orNever, placeWords, statePhrase } from './standing-list.ts';

/** How the subscriber is now. */
export function standingFacts({ items: [one], waitsForSeconds, generatedAt: now }: SubscriberHealth): Facts {
  const { pending, failing, lastAnswer } = one;
  const failed = orNever(one.lastFailedAt, now);
  const limit = limitPhrase(one, now);
  return [
    ['State', statePhrase(one)],
    ['Runs', placeWords(one)],
    limit && ['Limit', limit],
    ['Pending', counted(pending)],
    ['Failing', counted(failing, 'yellow')],
    ['Waits longest', ageWords(waitsForSeconds)],
    ['Dead letters', deadLetterPhrase(one)],
    ['Last delivered', orNever(one.lastDeliveredAt, now)],
    ['Last failed', lastAnswer === null ? failed : say`${failed}: ${lastAnswer}`],
  ];
}

/** Its lanes whose first delivery waits for a retry. */
export function heldOf({ heldLanes: lanes, items: [one], generatedAt: now }: SubscriberHealth) {
  return {
    lanes,
    now,
    name: ({ topic, orderingKey }: HeldLane) =>
      say`${link(topicPath(topic), topic)}${orderingKey !== '' && below(visibleName(orderingKey))}`,
    holds: ({ topic }: HeldLane) => {
      const isPaused = one.pauses.some((pause) => pause.topic === null || pause.topic === topic);
      return isPaused ? 'pause' : one.outage === null ? null : 'outage';
    },
  } as const;
}

/** The figures of the whole span. */
export function healthFacts({ whole }: SubscriberHealth): Facts {
  const { delivered, deadLettered, failedAttempts, replays } = whole;
  const again = replays.deadLettered > 0 ? `, ${count(replays.deadLettered)} dead-lettered again` : '';
  return [
    ['Delivered', `${count(delivered)}${shareWords(delivered, deadLettered)}`],
    ['Dead letters', counted(deadLettered, 'red')],
    ['Failed attempts', counted(failedAttempts, 'yellow')],
    replays.delivered + replays.deadLettered > 0 && [
      'Replays',
      `${count(replays.delivered)} delivered${again}`,
    ],
    ['Commit to delivered, p50 · p95', timesWords(whole.deliveredInMs)],
    ['Handler, p50 · p95', timesWords(whole.handlerMs)],
    ['Longest wait in the backlog', ageWords(whole.backlogAgeSeconds)],
  ];
}

/** Says since when the subscriber does not answer, what waits, and when it is probed. @returns null if it answers. */
export function outageSentence({
  items: [{ outage, pending, failing }],
  subscriber,
  generatedAt: now,
}: SubscriberHealth): Phrase | null {
  if (outage === null) return null;
  const { kind, since, probes, nextProbeAt } = outage;
  const silent = strong(say`${subscriber} ${silenceWords(kind)} since ${toMinute(since, now)}.`);
  const probed = probes > 0 && `, ${quantity(probes, 'probe')} without an answer`;
  return say`${silent} ${deliveriesWait(pending + failing)}, without using up attempts. Next probe ${until(nextProbeAt, now)}${probed}.`;
}
