import { html } from '../../platform/markup.ts';
import { MINUTE } from '../../platform/time.ts';
import { inConsole, inTerminal, mono, phraseOf, say } from '../kit/document.ts';
import { earlierPhrase } from '../kit/earlier-words.ts';
import { ago, time, timeText, timeToMinute } from '../kit/instants.ts';
import { ALL_TIME } from '../kit/links.ts';
import type { Warning, Warnings } from '../kit/operation-pages.ts';
import { failureText, lastFailureClause } from '../kit/states.ts';
import { count, groupWords, lastPeriod, quantity } from '../kit/words.ts';
import type { LeftOut, PreviewedSubscription, ReplayPreview } from './preview.ts';

type Previewed = Omit<ReplayPreview, 'replayId'>;

// What a preview says, for the page and for the command line.

/** What to consider before a replay. */
export function warningsOf(view: Previewed): Warnings {
  return [
    view.isAll && [
      'Delivered events are sent again too.',
      'A subscriber that does not recognise their event ids handles them twice.',
    ],
    view.planned > 0 && [
      `${quantity(view.planned, 'delivery')} ${view.planned === 1 ? 'is' : 'are'} being replayed already, at a pace.`,
      view.earlier === null
        ? 'This replay takes them from it.'
        : earlierPhrase(view.earlier, view.generatedAt),
    ],
    ...leftOutWarnings(view.leftOut),
    unmatchedWarning(view),
    dismissedWarning(view),
    skippedWarning(view),
    ...subscriptionWarnings(view),
  ];
}

function skippedWarning({ matched, subscriptions }: Previewed): Warning | false {
  const skipped = subscriptions.reduce((sum, one) => sum + one.skipped, 0);
  if (skipped === 0) return false;
  const them = matched === 1 ? 'it' : matched === skipped ? 'all of them' : `${count(skipped)} of them`;
  return [
    `An operator skipped ${them}.`,
    'What is skipped was not to be delivered. Replay it only if that has changed.',
  ];
}

function dismissedWarning({ matched, dismissed, request: { include } }: Previewed): Warning | false {
  if (dismissed === 0 || include === 'dismissed') return false;
  const them = matched === 1 ? 'it' : matched === dismissed ? 'all of them' : `${count(dismissed)} of them`;
  return [
    `An operator dismissed ${them}.`,
    'What is dismissed was not to be delivered. Replay it only if that has changed.',
  ];
}

/** A warning names no more deliveries. */
const MOST_NAMED = 3;

function unmatchedWarning({ unmatched }: Previewed): Warning | false {
  if (unmatched.length === 0) return false;
  const are = unmatched.length === 1 ? 'delivery is' : 'deliveries are';
  const others = unmatched.length - MOST_NAMED;
  const named = `${unmatched.slice(0, MOST_NAMED).join(', ')}${others > 0 ? ` and ${count(others)} more` : ''}`;
  return [
    `${count(unmatched.length)} selected ${are} not dead-lettered, and left out.`,
    `${named}: pending, delivered, or pruned.`,
  ];
}

/** Above this, subscriptions of one kind share a warning; the list has a note beside each. */
const MOST_WARNINGS = 3;

const SHARED = {
  unattached: ['are not attached', 'Replayed deliveries wait until they have a handler or an endpoint.'],
  paused: ['are paused', 'Replayed deliveries wait until someone resumes them.'],
  failing: ['are still failing', 'A replay now will probably fail too.'],
} as const;

function subscriptionWarnings({ subscriptions, generatedAt }: Previewed): Warnings {
  return Object.entries(SHARED).flatMap(([trouble, [are, then]]) => {
    const those = subscriptions.filter((one) => troubleOf(one) === trouble);
    return those.length > MOST_WARNINGS
      ? [[`${shareWords(those.length, subscriptions.length)} ${are}.`, then] as const]
      : those.map((one) => subscriptionWarning(one, generatedAt));
  });
}

function shareWords(some: number, all: number): string {
  return some === all ? `All ${count(all)} subscriptions` : `${count(some)} of ${count(all)} subscriptions`;
}

/** What a replay to a subscription would wait for or fail of; null for nothing. */
function troubleOf({ attached, paused, isStillFailing }: PreviewedSubscription): keyof typeof SHARED | null {
  if (!attached) return 'unattached';
  return paused ? 'paused' : isStillFailing ? 'failing' : null;
}

const NOTES = { unattached: 'not attached', paused: 'paused', failing: 'still failing' };

/** The same in a few words, beside the subscription. */
export function subscriptionNote(one: PreviewedSubscription): string | null {
  const trouble = troubleOf(one);
  const notes = [one.skipped > 0 && `${count(one.skipped)} skipped`, trouble && NOTES[trouble]];
  return notes.filter(Boolean).join(', ') || null;
}

/** Says why nothing would be replayed, and who was first. @returns null where something would be. */
export function emptyWords(view: Previewed): string | null {
  if (view.matched > 0) return null;
  const first = view.earlier === null ? [] : [earlierPhrase(view.earlier, view.generatedAt).text];
  return [
    nothingWords(view),
    ...first,
    ...leftOutWarnings(view.leftOut)
      .flat()
      .map((part) => phraseOf(part).text),
  ].join(' ');
}

/** Says that nothing matches, by the filter that was asked for. */
export function nothingWords({ topic, request, isAll, leftOut, generatedAt: now }: Previewed): string {
  if (leftOut.length > 0) return 'All that matches is left out.';
  const { deliveryIds, subscriber, group, incident, q, since, until, include } = request;
  if (topic === null && deliveryIds) return 'The selected deliveries are not dead-lettered.';
  const what = isAll
    ? 'ended deliveries'
    : include === 'dismissed'
      ? 'dismissed dead letters'
      : 'dead letters';
  return `No ${[
    what,
    topic !== null && `on ${topic}`,
    subscriber !== undefined && `to ${subscriber}`,
    group !== undefined && `with ${groupWords(group)}`,
    incident !== undefined && 'of the incident',
    q !== undefined && `whose error contains “${q}”`,
    since !== undefined && since !== ALL_TIME && `in the ${lastPeriod(since)}`,
    until !== undefined && isBygone(until, now) && `before ${timeText(until, now)}`,
  ]
    .filter(Boolean)
    .join(' ')}.`;
}

/** Whether a window was asked for that ends in the past. A form's ends at its preview, a moment ago. */
function isBygone(until: string, now: string): boolean {
  return Date.parse(now) - Date.parse(until) > MINUTE;
}

/** What the replay leaves out, and why. */
export function leftOutWarnings(leftOut: readonly LeftOut[]): readonly Warning[] {
  return leftOut.map(({ topic, subscriber, count: number, reason }) => [
    `${quantity(number, 'delivery')} to ${subscriber} ${number === 1 ? 'is' : 'are'} left out.`,
    reason === 'refuses_replays'
      ? say`${subscriber} refuses replays of ${mono(topic)}, because it would act twice. Settle its dead letters another way, then dismiss them.`
      : say`This release’s catalog does not list ${subscriber} for ${mono(topic)}.`,
  ]);
}

function subscriptionWarning(one: PreviewedSubscription, now: string): Warning {
  const { subscriber, attached, paused } = one;
  if (!attached)
    return [
      `${subscriber} is not attached.`,
      'Replayed deliveries wait until it has a handler or an endpoint.',
    ];
  if (paused) return [`${subscriber} is paused.`, 'Replayed deliveries wait until someone resumes it.'];
  return stillFailing(one, now);
}

function stillFailing(one: PreviewedSubscription, now: string): Warning {
  const { subscriber, topic, lastDeliveredAt, lastFailedAt, lastError } = one;
  const name = html`<span class="mono">${topic}</span>`;
  const accepted =
    lastDeliveredAt === null
      ? html`It has never accepted a ${name} delivery`
      : html`It has accepted no ${name} delivery since ${timeToMinute(lastDeliveredAt, now)}`;
  const failure = lastError !== null && lastFailedAt !== null && { error: lastError, at: lastFailedAt };
  const failed = failure && html`, and ${lastFailureClause(failure.error)} at ${time(failure.at, now)}`;
  const last = failure ? ` (${failureText(failure.error)}, ${ago(failure.at, now)})` : '';
  return [
    say`${subscriber} is still failing${inTerminal(last)}.`,
    say`${inConsole(html`${accepted}${failed}. `)}A replay now will probably fail too.`,
  ];
}
