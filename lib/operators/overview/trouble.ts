import type { Overview } from './read.ts';
import { holdsBack, isLate, waitsForRelease } from './attention.ts';
import { CHECK_ICON, CLOCK_ICON, DEAD_ICON, PAUSE_ICON, WARNING_ICON } from '../page/icons.ts';
import { age, timeToMinute, until } from '../page/instants.ts';
import { deadLettersPath, HOME, topicPath } from '../page/links.ts';
import { html } from '../../markup.ts';
import type { Html } from '../../markup.ts';
import { alert } from '../page/sections.ts';
import { failurePredicate } from '../page/states.ts';
import { count, quantity, joinNames } from '../page/words.ts';

/**
 * Says in one sentence what the worst trouble is, with a link to it. The worst is a relay that does not run; then come
 * dead letters, failures, late topics, pauses, and deliveries that wait for another release.
 */
export function troubleAlert(view: Overview): Html {
  return (
    relayElsewhere(view) ??
    relayTrouble(view) ??
    deadTrouble(view) ??
    failingTrouble(view) ??
    lateTrouble(view) ??
    pausedTrouble(view) ??
    otherReleaseTrouble(view) ??
    allQuiet()
  );
}

/** A deployment that does not relay, such as a preview, says so first: its waiting deliveries are no trouble. */
function relayElsewhere({ relay, generatedAt }: Overview): Html | null {
  if (relay.runsHere) return null;
  const other =
    relay.state === 'running'
      ? html`Another deployment delivers from this database; its relay ran last at
        ${timeToMinute(relay.lastPassAt ?? generatedAt, generatedAt)}.`
      : 'No other deployment delivers from this database either, so events wait.';
  return alert(
    'fail',
    PAUSE_ICON,
    html`<b>This deployment does not run the relay.</b> ${other} To deliver from here, set
      <code>RELAY=on</code>.`,
  );
}

function relayTrouble({ relay, generatedAt }: Overview): Html | null {
  if (relay.state === 'running') return null;
  const since =
    relay.lastPassAt === null
      ? 'The relay has never run.'
      : html`The relay has not run since ${timeToMinute(relay.lastPassAt, generatedAt)}.`;
  return alert(
    'dead',
    DEAD_ICON,
    html`<b>${since}</b> Events are saved but not delivered. Check the cron that calls
      <code>/api/cron/relay</code> every minute, and the response it gets.`,
  );
}

function deadTrouble(view: Overview): Html | null {
  const { worstError, totals } = view;
  if (worstError === null) return null;
  const { subscriber, topic, group } = worstError;
  return alert(
    'dead',
    DEAD_ICON,
    html`<b>${shareOf(worstError, totals.deliveries.deadLettered)}</b> ${subscriber}
      ${failurePredicate(worstError)} on <span class="mono">${topic}</span>. ${sinceThen(worstError, view)}`,
    html`<a class="btn" href="${deadLettersPath({ topic, subscriber, group })}">Review dead letters</a>`,
  );
}

type WorstError = NonNullable<Overview['worstError']>;

function shareOf({ count: number }: WorstError, all: number): string {
  if (all === 1) return '1 dead letter:';
  if (number >= all) return `All ${count(all)} dead letters have the same error:`;
  if (number === 1) return `${count(all)} dead letters, each with a different error. One of them:`;
  return `${count(number)} of ${count(all)} dead letters have the same error:`;
}

/** Says whether the subscriber has succeeded since: then only the dead letters remain. */
function sinceThen({ topic, subscriber, lastDeliveredAt }: WorstError, view: Overview): Html {
  if (lastDeliveredAt === null) return html`${subscriber} has never accepted a delivery of this topic.`;
  const lastFailedAt = view.topics
    .find((one) => one.topic === topic)
    ?.subscribers.find((one) => one.subscriber === subscriber)?.lastFailedAt;
  const at = timeToMinute(lastDeliveredAt, view.generatedAt);
  return lastFailedAt && Date.parse(lastFailedAt) < Date.parse(lastDeliveredAt)
    ? html`It has accepted deliveries again since then, the last at ${at}.`
    : html`It has accepted no delivery since ${at}.`;
}

function failingTrouble({ totals, topics, generatedAt }: Overview): Html | null {
  const { failing } = totals.deliveries;
  if (failing === 0) return null;
  const nextRetryAt = topics.flatMap((topic) => topic.nextRetryAt ?? []).toSorted()[0];
  const next = nextRetryAt === undefined ? '' : ` The next retry is ${until(nextRetryAt, generatedAt)}.`;
  const failingTopics = topics.filter((topic) => topic.failing > 0);
  const [only] = failingTopics;
  const path =
    only && failingTopics.length === 1 ? `${topicPath(only.topic)}#held` : `${HOME}?sort=failing#topics`;
  return alert(
    'fail',
    WARNING_ICON,
    html`<b>${quantity(failing, 'delivery')} ${failing === 1 ? 'is' : 'are'} failing</b> and will be
      retried.${next}`,
    html`<a class="btn" href="${path}">See failing deliveries</a>`,
  );
}

function lateTrouble({ topics, generatedAt }: Overview): Html | null {
  const held = topics.find(({ heldBackSince }) => heldBackSince !== null);
  if (held?.heldBackSince) {
    return alert(
      'fail',
      WARNING_ICON,
      html`<b><span class="mono">${held.topic}</span> is held back</b> by a producer’s transaction, open since
        ${timeToMinute(held.heldBackSince, generatedAt)}. Its events are delivered when that transaction ends.`,
      openTopic(held.topic),
    );
  }
  const oldest = Math.max(0, ...topics.map(({ oldestDueAgeSeconds }) => oldestDueAgeSeconds ?? 0));
  const late = topics.find(({ oldestDueAgeSeconds }) => oldestDueAgeSeconds === oldest);
  if (late === undefined || !isLate(oldest)) return null;
  return alert(
    'fail',
    WARNING_ICON,
    html`<b><span class="mono">${late.topic}</span> is late.</b> Its oldest delivery has been due for
      ${age(oldest)}.`,
    openTopic(late.topic),
  );
}

function pausedTrouble({ topics }: Overview): Html | null {
  const held = topics.flatMap(({ topic, subscribers }) =>
    subscribers.filter(holdsBack).map(({ subscriber, pending }) => ({ topic, subscriber, pending })),
  );
  const [first] = held;
  if (first === undefined) return null;
  const names = [...new Set(held.map(({ subscriber }) => subscriber))].toSorted();
  const waiting = held.reduce((sum, { pending }) => sum + pending, 0);
  return alert(
    'fail',
    PAUSE_ICON,
    html`<b>${joinNames(names)} ${names.length === 1 ? 'is' : 'are'} paused.</b>
      ${quantity(waiting, 'delivery')} ${waiting === 1 ? 'waits' : 'wait'} until someone resumes
      ${names.length === 1 ? 'it' : 'them'}.`,
    openTopic(first.topic),
  );
}

function otherReleaseTrouble({ topics }: Overview): Html | null {
  const waiting = topics.flatMap(({ topic, subscribers }) =>
    subscribers.filter(waitsForRelease).map(({ pending }) => ({ topic, pending })),
  );
  const [first] = waiting;
  if (first === undefined) return null;
  const number = waiting.reduce((sum, { pending }) => sum + pending, 0);
  return alert(
    'fail',
    CLOCK_ICON,
    html`<b>${quantity(number, 'delivery')} ${number === 1 ? 'waits' : 'wait'} for another release.</b> This
      release’s catalog lacks the subscription or the payload version.`,
    openTopic(first.topic),
  );
}

function openTopic(topic: string): Html {
  return html`<a class="btn" href="${topicPath(topic)}">Open topic<span class="vh"> ${topic}</span></a>`;
}

function allQuiet(): Html {
  return alert('ok', CHECK_ICON, html`<b>All quiet.</b> Nothing is failing and nothing is dead-lettered.`);
}
