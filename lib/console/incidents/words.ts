import { timeWords } from '../../components/incidents/times.ts';
import { html } from '../../platform/markup.ts';
import { say } from '../kit/document.ts';
import type { Phrase } from '../kit/document.ts';
import { ago, timeText, timeToMinute, until } from '../kit/instants.ts';
import { incidentPath } from '../kit/links.ts';
import type { Warnings } from '../kit/operation-pages.ts';
import { count, deliveriesWait, quantityOfLanes } from '../kit/words.ts';
import type { IncidentReplay, IncidentView } from './detail.ts';
import type { Incident } from './incident.ts';
import { causeWords } from './sentence.ts';
import type { SkipPreview } from './skip-preview.ts';

/** Says since when an incident lasts, or how long it lasted. */
export function whenPhrase(incident: Incident, now: string): Phrase {
  const { openedAt, closedAt, times, lastOpenedAt } = incident;
  const opened = timeOf(openedAt, now);
  if (closedAt !== null) {
    const often = times > 1 ? `, ${times} times` : '';
    return say`from ${opened} until ${timeOf(closedAt, now)}${often}`;
  }
  if (times > 1 && lastOpenedAt !== null)
    return say`${timeWords(times)} since ${opened}, now since ${timeOf(lastOpenedAt, now)}`;
  const since = ago(openedAt, now);
  return say`since ${opened}${{ html: `, ${since}`, text: ` (${since})` }}`;
}

/** The other open incidents of the same subscription: it may fail in another way now. An outage is one of each topic. */
export function othersOf({ topic, others }: IncidentView): IncidentView['others'] {
  return others.filter((other) => topic === null || other.topic === null || other.topic === topic);
}

/**
 * Says the causes of a subscriber's trouble as one story, the first failure first, each linked to its incident but the one
 * that is shown: `Since 00:44: 500: licence expired. Since 01:02: 410: account closed.`
 *
 * @returns null where there is only one cause.
 */
export function storyPhrase(view: IncidentView): Phrase | null {
  const clauses = storyClauses(view);
  if (clauses.length === 0) return null;
  return {
    html: clauses.map((clause) => html`${clause.html} `),
    text: clauses.map(({ text }) => text).join(' '),
  };
}

/** Says each cause of a subscriber's trouble. @returns none where there is only one. */
export function storyClauses(view: IncidentView): readonly Phrase[] {
  const { incidentId, topic, others, generatedAt: now, closedAt } = view;
  if (others.length === 0) return [];
  const open = closedAt === null ? [view, ...others] : others;
  return open
    .toSorted((one, other) => Date.parse(one.openedAt) - Date.parse(other.openedAt))
    .map((one) => {
      const on = one.topic === null || one.topic === topic ? '' : ` on ${one.topic}`;
      const left = one.state === 'owed' ? ', over, with dead letters left' : '';
      const cause = `${causeWords(one.lastError)}${on}${left}`;
      const linked = html`<a href="${incidentPath(one.incidentId)}">${cause}</a>`;
      return say`Since ${timeOf(one.openedAt, now)}: ${one.incidentId === incidentId ? cause : { html: linked, text: cause }}.`;
    });
}

function timeOf(instant: string, now: string): Phrase {
  return { html: timeToMinute(instant, now), text: timeText(instant, now) };
}

/** Says when the next delivery probes a subscriber that does not answer. */
export function probeWords({ outage, paused }: Incident, now: string): string | null {
  return outage === null || paused ? null : `next probe ${until(outage.nextProbeAt, now)}`;
}

/** Says what a replay has not delivered: `3 pending, 1 dead-lettered again`. */
export function leftWords({ left, pending, failing, deadLettered }: IncidentReplay): string {
  return [
    left > 0 && `${count(left)} not put back yet`,
    pending > 0 && `${count(pending)} pending`,
    failing > 0 && `${count(failing)} failed again and will be retried`,
    deadLettered > 0 && `${count(deadLettered)} dead-lettered again`,
  ]
    .filter((words) => words !== false)
    .join(', ');
}

/** Says what follows a skip of what holds the lanes. */
export function behindWords({ lanes, waiting }: SkipPreview): string {
  const go = lanes.length === 1 ? 'goes' : 'go';
  return `${quantityOfLanes(lanes.length)} ${go} on; ${deliveriesWait(waiting)} behind`;
}

/** Says which lanes a skip leaves as they are. */
export function haltedWarning({ haltedLanes }: SkipPreview): Warnings[number] {
  return (
    haltedLanes > 0 && [
      `${quantityOfLanes(haltedLanes)} ${haltedLanes === 1 ? 'is' : 'are'} halted by a dead letter.`,
      'A skip leaves them as they are: replay or dismiss that dead letter.',
    ]
  );
}

/** Heads a list that may be cut: `Dead letters`, `10 of 1,204 dead letters`. */
export function titleOf(title: string, shown: number, all: number, counted = count): string {
  return shown < all ? `${shown} of ${counted(all)} ${title.toLowerCase()}` : title;
}
