import { KEEP_MS } from '../../bus/deliveries/prune.ts';
import { DAY, MINUTE, SECOND } from '../../platform/time.ts';
import { duration, timeText } from '../kit/instants.ts';
import { count, quantity } from '../kit/words.ts';
import type { BackfillPreview } from './preview.ts';

// What a preview says, for the page and for the command line.

/** The pace, and about how long the writing takes. */
export function paceWords({ perMinute, estimatedSeconds }: BackfillPreview): string {
  const about = `about ${duration(Math.max(1, estimatedSeconds) * SECOND)}`;
  return perMinute === null
    ? `As fast as the database can: ${about} to write them`
    : `${count(perMinute)} a minute: ${about}`;
}

/** What waits meanwhile. */
export function meanwhileWords({ subscriber, newerWaiting }: BackfillPreview): string {
  const waiting = newerWaiting === 0 ? '' : ` (${count(newerWaiting)} do already)`;
  return `Newer events wait for ${subscriber} until the backfill has come to them${waiting}. Producers go on.`;
}

/** A fact that an operator should know before the backfill, in two parts: what is so, and what follows. */
export type Warning = readonly [fact: string, consequence: string];

/** What to consider before a backfill, the most important first. */
export function warningsOf(view: BackfillPreview): readonly Warning[] {
  return [...newer(view), ...recent(view), ...lost(view), ...held(view)];
}

function newer({ subscriber, topic, newerDelivered }: BackfillPreview): readonly Warning[] {
  if (newerDelivered === 0) return [];
  return [
    [
      `${subscriber} was already handed ${quantity(newerDelivered, 'newer event')} of ${topic}.`,
      `The backfilled ones can’t come before ${newerDelivered === 1 ? 'it' : 'them'} any more. To keep the order for a new subscriber, pause it before the release that lists it (npx postbud pause ${subscriber} --topic ${topic} --ahead), backfill, then resume it.`,
    ],
  ];
}

/** A release that lacks the subscription and still runs will have emitted within this time. */
const RECENT_MS = 10 * MINUTE;

function recent({ newestAt, generatedAt, subscriber }: BackfillPreview): readonly Warning[] {
  if (newestAt === null || Date.parse(generatedAt) - Date.parse(newestAt) >= RECENT_MS) return [];
  return [
    [
      `The newest was recorded at ${timeText(newestAt, generatedAt)}.`,
      `If a release that does not list ${subscriber} still runs, its next events will lack the delivery too: wait until it is gone, or backfill again then.`,
    ],
  ];
}

/** What no backfill can reach. */
export function lost({ pruned, topic }: BackfillPreview): readonly Warning[] {
  const { events, firstDay, lastDay, uncountedBefore } = pruned;
  const days = firstDay === lastDay ? `of ${firstDay}` : `of the days ${firstDay} to ${lastDay}`;
  const kept = `Delivered events are kept for ${KEEP_MS / DAY} days`;
  return [
    ...(events > 0
      ? [
          [
            `${quantity(events, 'event')} of ${topic} ${days} (UTC) ${events === 1 ? 'was' : 'were'} pruned.`,
            `${kept}. No backfill can reach ${events === 1 ? 'it' : 'them'}.`,
          ] as const,
        ]
      : []),
    ...(uncountedBefore === null
      ? []
      : [
          [
            `Events of days before ${uncountedBefore} may have been pruned without being counted.`,
            `${kept}, and earlier releases did not count what they pruned.`,
          ] as const,
        ]),
  ];
}

function held({ attached, paused, subscriber }: BackfillPreview): readonly Warning[] {
  return [
    ...(attached
      ? []
      : [
          [
            `${subscriber} is not attached.`,
            'Backfilled deliveries wait until it has a handler or an endpoint.',
          ] as const,
        ]),
    ...(paused
      ? [[`${subscriber} is paused.`, 'Backfilled deliveries wait until someone resumes it.'] as const]
      : []),
  ];
}
