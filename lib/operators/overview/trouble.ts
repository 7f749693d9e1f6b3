import type { Overview } from './read.ts';
import { holdsBack, isLate, waitsForRelease } from './attention.ts';
import { CHECK_ICON, CLOCK_ICON, DEAD_ICON, PAUSE_ICON, WARNING_ICON } from '../page/icons.ts';
import { age, toTheMinute, until } from '../page/instants.ts';
import { deadLettersPath, HOME, topicPath } from '../page/links.ts';
import { html } from '../../markup.ts';
import type { Child, Html } from '../../markup.ts';
import { failsHow } from '../page/states.ts';
import { count, counted, listed } from '../page/words.ts';

/** One sentence on the worst trouble, and where to go with it: a relay that does not run, then what is dead, failing, late, paused or another release's. */
export function troubleAlert(view: Overview): Html {
  return (
    notHere(view) ??
    relayTrouble(view) ??
    deadTrouble(view) ??
    failingTrouble(view) ??
    lateTrouble(view) ??
    pausedTrouble(view) ??
    otherReleaseTrouble(view) ??
    allQuiet()
  );
}

/** A deployment that does not relay, such as a preview, says so before all else: what waits here is not in trouble. */
function notHere({ relay, generatedAt }: Overview): Html | null {
  if (relay.runsHere) return null;
  const other =
    relay.state === 'running'
      ? html`Another deployment relays on this database, last at
        ${toTheMinute(relay.lastPassAt ?? generatedAt, generatedAt)}.`
      : 'No other deployment relays on this database either: events wait.';
  return alert(
    'warn',
    PAUSE_ICON,
    html`<b>This deployment does not relay.</b> ${other} Set <code>RELAY=on</code> to let it.`,
  );
}

function relayTrouble({ relay, generatedAt }: Overview): Html | null {
  if (relay.state === 'running') return null;
  const since =
    relay.lastPassAt === null
      ? 'The relay has never run.'
      : html`The relay has not run since ${toTheMinute(relay.lastPassAt, generatedAt)}.`;
  return alert(
    '',
    DEAD_ICON,
    html`<b>${since}</b> Events are being saved but not delivered. Check the cron that calls
      <code>/api/cron/relay</code> every minute, and what it is answered.`,
  );
}

function deadTrouble(view: Overview): Html | null {
  const { worstError, totals } = view;
  if (worstError === null) return null;
  const { subscriber, topic, group } = worstError;
  return alert(
    '',
    DEAD_ICON,
    html`<b>${shareOf(worstError, totals.deliveries.deadLettered)}</b> ${subscriber} ${failsHow(worstError)}
      on <span class="mono">${topic}</span>. ${sinceThen(worstError, view)}`,
    html`<a class="btn" href="${deadLettersPath({ topic, subscriber, group })}">Review dead letters</a>`,
  );
}

function shareOf({ count: number }: NonNullable<Overview['worstError']>, all: number): string {
  if (all === 1) return 'One dead letter:';
  if (number >= all) return `All ${count(all)} dead letters are one error:`;
  if (number === 1) return `${count(all)} dead letters, each with an error of its own. One of them:`;
  return `${count(number)} of ${count(all)} dead letters are one error:`;
}

/** Whether anything has got through since it failed: then the worst is over, though the dead letters remain. */
function sinceThen(
  { topic, subscriber, lastDeliveredAt }: NonNullable<Overview['worstError']>,
  view: Overview,
): Html {
  if (lastDeliveredAt === null) return html`Nothing has ever got through to ${subscriber} there.`;
  const lastFailedAt = view.topics
    .find((one) => one.topic === topic)
    ?.subscribers.find((one) => one.subscriber === subscriber)?.lastFailedAt;
  const at = toTheMinute(lastDeliveredAt, view.generatedAt);
  return lastFailedAt && Date.parse(lastFailedAt) < Date.parse(lastDeliveredAt)
    ? html`It has delivered again since, last at ${at}.`
    : html`Nothing has got through to ${subscriber} there since ${at}.`;
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
    'warn',
    WARNING_ICON,
    html`<b>${counted(failing, 'delivery')} ${failing === 1 ? 'is' : 'are'} failing</b> and will be tried
      again.${next}`,
    html`<a class="btn" href="${path}">See what fails</a>`,
  );
}

function lateTrouble({ topics, generatedAt }: Overview): Html | null {
  const held = topics.find(({ heldBackSince }) => heldBackSince !== null);
  if (held?.heldBackSince) {
    return alert(
      'warn',
      WARNING_ICON,
      html`<b><span class="mono">${held.topic}</span> is held back</b> by a producer’s transaction that has
        been open since ${toTheMinute(held.heldBackSince, generatedAt)}.`,
      openTopic(held.topic),
    );
  }
  const oldest = Math.max(0, ...topics.map(({ oldestDueAgeSeconds }) => oldestDueAgeSeconds ?? 0));
  const late = topics.find(({ oldestDueAgeSeconds }) => oldestDueAgeSeconds === oldest);
  if (late === undefined || !isLate(oldest)) return null;
  return alert(
    'warn',
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
    'warn',
    PAUSE_ICON,
    html`<b>${listed(names)} ${names.length === 1 ? 'is' : 'are'} paused.</b> ${counted(waiting, 'delivery')}
      ${waiting === 1 ? 'waits' : 'wait'} until someone resumes ${names.length === 1 ? 'it' : 'them'}.`,
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
    'warn',
    CLOCK_ICON,
    html`<b>${counted(number, 'delivery')} ${number === 1 ? 'waits' : 'wait'} for another release.</b> This
      one’s catalog does not list the subscriber, or not the payload’s version.`,
    openTopic(first.topic),
  );
}

function openTopic(topic: string): Html {
  return html`<a class="btn" href="${topicPath(topic)}">Open topic<span class="vh"> ${topic}</span></a>`;
}

function allQuiet(): Html {
  return alert('good', CHECK_ICON, html`<b>All quiet.</b> Nothing is failing and nothing is dead-lettered.`);
}

function alert(tone: '' | 'warn' | 'good', icon: Html, words: Html, action?: Child): Html {
  return html`<div class="alert ${tone}" data-alert>
    ${icon}
    <p>${words}</p>
    ${action}
  </div>`;
}
