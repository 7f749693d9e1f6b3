import { KEEP_MS } from '../../bus/deliveries/prune.ts';
import { DAY, MINUTE, SECOND } from '../../platform/time.ts';
import { duration, timeText } from '../kit/instants.ts';
import type { Warnings } from '../kit/operation-pages.ts';
import { count, quantity } from '../kit/words.ts';
import type { BackfillPreview } from './preview.ts';

type Previewed = Omit<BackfillPreview, 'backfillId'>;

// What a preview says, for the page and for the command line.

/** The pace, and about how long the writing takes. */
export function paceWords({ perMinute, estimatedSeconds }: Previewed): string {
  const about = `about ${duration(Math.max(1, estimatedSeconds) * SECOND)}`;
  return perMinute === null
    ? `As fast as the database can: ${about} to write them`
    : `${count(perMinute)} a minute: ${about}`;
}

/** What waits meanwhile. */
export function meanwhileWords({ subscriber, newerWaiting }: Previewed): string {
  const waiting = newerWaiting === 0 ? '' : ` (${count(newerWaiting)} do already)`;
  return `Newer events wait for ${subscriber} until the backfill has come to them${waiting}. Producers go on.`;
}

/** What to consider before a backfill. */
export function warningsOf(view: Previewed): Warnings {
  const { topic, subscriber, newerDelivered, newestAt, attached, paused, generatedAt: now } = view;
  return [
    newerDelivered > 0 && [
      `${subscriber} was already handed ${quantity(newerDelivered, 'newer event')} of ${topic}.`,
      `The backfilled ones can’t come before ${newerDelivered === 1 ? 'it' : 'them'} any more. To keep the order for a new subscriber, pause it before the release that lists it (npx postbud pause ${subscriber} --topic ${topic} --ahead), backfill, then resume it.`,
    ],
    newestAt !== null &&
      Date.parse(now) - Date.parse(newestAt) < RECENT_MS && [
        `The newest was recorded at ${timeText(newestAt, now)}.`,
        `If a release that does not list ${subscriber} still runs, its next events will lack the delivery too: wait until it is gone, or backfill again then.`,
      ],
    ...lost(view),
    !attached && [
      `${subscriber} is not attached.`,
      'Backfilled deliveries wait until it has a handler or an endpoint.',
    ],
    paused && [`${subscriber} is paused.`, 'Backfilled deliveries wait until someone resumes it.'],
  ];
}

/** A release that lacks the subscription and still runs will have emitted within this time. */
const RECENT_MS = 10 * MINUTE;

/** What no backfill can reach. */
export function lost({ pruned, topic }: Previewed): Warnings {
  const { events, firstDay, lastDay, uncountedBefore } = pruned;
  const days = firstDay === lastDay ? `of ${firstDay}` : `of the days ${firstDay} to ${lastDay}`;
  const kept = `Delivered events are kept for ${KEEP_MS / DAY} days`;
  return [
    events > 0 && [
      `${quantity(events, 'event')} of ${topic} ${days} (UTC) ${events === 1 ? 'was' : 'were'} pruned.`,
      `${kept}. No backfill can reach ${events === 1 ? 'it' : 'them'}.`,
    ],
    uncountedBefore !== null && [
      `Events of days before ${uncountedBefore} may have been pruned without being counted.`,
      `${kept}, and earlier releases did not count what they pruned.`,
    ],
  ];
}
