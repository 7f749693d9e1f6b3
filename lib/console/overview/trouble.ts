import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { incidentItems, owedTitle } from '../incidents/list.ts';
import { drawItems } from '../kit/doc.ts';
import { inTerminal, say, strong, toMinute } from '../kit/document.ts';
import type { Part, Phrase } from '../kit/document.ts';
import { CHECK_ICON, CLOCK_ICON, DEAD_ICON, PAUSE_ICON, WARNING_ICON } from '../kit/icons.ts';
import { age, ago, timeToMinute } from '../kit/instants.ts';
import type { PageContext } from '../kit/layout.ts';
import { incidentsPath, topicPath } from '../kit/links.ts';
import { endsOf } from '../kit/prepared.ts';
import { alert, card, section } from '../kit/sections.ts';
import { count, deliveriesWait, joinNames, quantity } from '../kit/words.ts';
import { isLate, waitsForRelease } from './attention.ts';
import type { Overview } from './read.ts';

/** Incidents of a state that the overview shows; the others are a click away. */
const SHOWN = { happening: 5, owed: 3 } as const;

/**
 * Says all that is wrong, the worst first: a relay that does not run; what happens now; topics that are late; pauses;
 * deliveries that wait for another release; an old snapshot; and, quieter, dead letters of what is over. None hides
 * another.
 */
export function troubles(view: Overview, context: PageContext): Html {
  const found = [
    relayAlert(view),
    incidentSection(view, 'happening', context),
    lateTrouble(view),
    pausedTrouble(view),
    otherReleaseTrouble(view),
    snapshotTrouble(view),
    incidentSection(view, 'owed', context),
  ].filter((one) => one !== null);
  const { failing, deadLettered } = view.totals.deliveries;
  return html`${found.length === 0 && failing + deadLettered === 0 ? allQuiet() : found}`;
}

interface RelayTrouble {
  readonly tone: 'dead' | 'fail';
  readonly title: Part;
  readonly text: Phrase;
}

/** Says that the relay does not run. @returns null if it does. */
export function relayTrouble({ relay, generatedAt: now }: Overview): RelayTrouble | null {
  const { state, lastPassAt, runsHere } = relay;
  // A deployment that does not relay, such as a preview, says so first: its waiting deliveries are no trouble.
  if (!runsHere) {
    const last = lastPassAt !== null && inTerminal(` The last run was ${ago(lastPassAt, now)}.`);
    const other =
      state === 'running'
        ? say`Another deployment delivers from this database; its relay ran last at ${toMinute(lastPassAt ?? now, now)}.`
        : say`No other deployment delivers from this database either, so events wait.${last}`;
    const title = 'This deployment does not run the relay.';
    return { tone: 'fail', title, text: say`${other} To deliver from here, set ${code('RELAY=on')}.` };
  }
  if (state === 'running') return null;
  return {
    tone: 'dead',
    title:
      lastPassAt === null
        ? 'The relay has never run.'
        : say`The relay has not run since ${toMinute(lastPassAt, now)}.`,
    text: say`Events are saved but not delivered. Check the cron that calls ${code('/api/cron/relay')} every minute, and the response it gets.`,
  };
}

function code(text: string): Phrase {
  return { html: html`<code>${text}</code>`, text };
}

function relayAlert(view: Overview): Html | null {
  const trouble = relayTrouble(view);
  if (trouble === null) return null;
  const { tone, title, text } = trouble;
  return alert(tone, tone === 'dead' ? DEAD_ICON : PAUSE_ICON, say`${strong(title)} ${text}`.html);
}

function incidentSection(view: Overview, state: 'happening' | 'owed', context: PageContext): Html | null {
  const found = view.incidents.filter((incident) => incident.state === state).slice(0, SHOWN[state]);
  if (found.length === 0) return null;
  const all = view.incidentCounts[state];
  return section({
    id: state,
    title: state === 'owed' ? owedTitle(view.incidents) : 'Happening now',
    hint: html`<a href="${incidentsPath()}#${state}"
      >${all > found.length ? `all ${count(all)} incidents` : quantity(all, 'incident')}</a
    >`,
    content: html`<div data-alert>
      ${card(drawItems(incidentItems(found, view.generatedAt, context.names), state === 'owed' ? 'quiet' : ''))}
    </div>`,
  });
}

function lateTrouble({ topics, generatedAt }: Overview): Html | null {
  const held = topics.find(({ heldBackSince }) => heldBackSince !== null);
  if (held?.heldBackSince) {
    const { heldBackBy: prepared } = held;
    if (prepared !== null)
      return alert(
        'fail',
        WARNING_ICON,
        html`<b><span class="mono">${held.topic}</span> is held back</b> by the prepared transaction
          <span class="mono">${prepared.gid}</span> of <span class="mono">${prepared.owner}</span>, since
          ${timeToMinute(held.heldBackSince, generatedAt)}. Its program never ended it. End it in the
          database: <code>${endsOf(prepared)[0]}</code> or <code>${endsOf(prepared)[1]}</code>.`,
        openTopic(held.topic),
      );
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
    subscribers
      .filter(({ paused }) => paused)
      .map(({ subscriber, pending, failing }) => ({ topic, subscriber, waiting: pending + failing })),
  );
  if (held.length === 0) return null;
  const names = [...new Set(held.map(({ subscriber }) => subscriber))].toSorted();
  const waiting = held.reduce((sum, one) => sum + one.waiting, 0);
  const worst = held.reduce((one, other) => (other.waiting > one.waiting ? other : one));
  return alert(
    'fail',
    PAUSE_ICON,
    html`<b>${joinNames(names)} ${names.length === 1 ? 'is' : 'are'} paused.</b>
      ${waiting === 0 ? 'Deliveries will wait' : deliveriesWait(waiting)} until someone resumes
      ${names.length === 1 ? 'it' : 'them'}.`,
    openTopic(worst.topic),
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
    html`<b>${deliveriesWait(number)} for another release.</b> This release’s catalog lacks the subscription
      or the payload version.`,
    openTopic(first.topic),
  );
}

function snapshotTrouble({ oldestSnapshot }: Overview): Html | null {
  if (oldestSnapshot === null) return null;
  return alert('fail', CLOCK_ICON, html`<b>Dead rows pile up.</b> ${oldestSnapshot.text}`);
}

function openTopic(topic: string): Html {
  return html`<a class="btn" href="${topicPath(topic)}">Open topic<span class="vh"> ${topic}</span></a>`;
}

function allQuiet(): Html {
  return alert('ok', CHECK_ICON, html`<b>All quiet.</b> Nothing is failing and nothing is dead-lettered.`);
}
