import { html } from '../../platform/markup.ts';
import { inConsole, inTerminal, mono, say } from '../kit/document.ts';
import { ago, time, timeToMinute } from '../kit/instants.ts';
import type { Warning, Warnings } from '../kit/operation-pages.ts';
import { failureText, lastFailureClause } from '../kit/states.ts';
import { quantity } from '../kit/words.ts';
import type { LeftOut, PreviewedSubscription, ReplayPreview } from './preview.ts';

// What a preview says, for the page and for the command line.

/** What to consider before a replay. */
export function warningsOf(view: ReplayPreview): Warnings {
  return [
    view.isAll && [
      'Delivered events are sent again too.',
      'A subscriber that does not recognise their event ids handles them twice.',
    ],
    ...leftOutWarnings(view.leftOut),
    ...view.subscriptions.map((one) => subscriptionWarning(one, view.generatedAt)),
  ];
}

/** What the replay leaves out, and why. */
export function leftOutWarnings(leftOut: readonly LeftOut[]): readonly Warning[] {
  return leftOut.map(({ topic, subscriber, count, reason }) => [
    `${quantity(count, 'delivery')} to ${subscriber} ${count === 1 ? 'is' : 'are'} left out.`,
    reason === 'refuses_replays'
      ? say`${subscriber} refuses replays of ${mono(topic)}, because it would act twice. Settle its dead letters another way, then dismiss them.`
      : say`This release’s catalog does not list ${subscriber} for ${mono(topic)}.`,
  ]);
}

function subscriptionWarning(one: PreviewedSubscription, now: string): Warnings[number] {
  const { subscriber, attached, paused, isStillFailing } = one;
  if (!attached)
    return [
      `${subscriber} is not attached.`,
      'Replayed deliveries wait until it has a handler or an endpoint.',
    ];
  if (paused) return [`${subscriber} is paused.`, 'Replayed deliveries wait until someone resumes it.'];
  return isStillFailing && stillFailing(one, now);
}

function stillFailing(one: PreviewedSubscription, now: string): Warnings[number] {
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
