import { courseWords, timeWords } from '../../components/incidents/course.ts';
import { say } from '../kit/document.ts';
import type { Phrase } from '../kit/document.ts';
import { ago, timeText, timeToMinute, until } from '../kit/instants.ts';
import { count } from '../kit/words.ts';
import type { IncidentReplay } from './detail.ts';
import type { Incident } from './incident.ts';

/** Says since when an incident lasts, or how long it lasted. */
export function whenPhrase(incident: Incident, now: string): Phrase {
  const { openedAt, closedAt, times, lastOpenedAt, course } = incident;
  const opened = timeOf(openedAt, now);
  const ways = courseWords(course);
  const story = ways === null ? '' : `: ${ways}`;
  if (closedAt !== null) {
    const often = times > 1 ? `, ${times} times` : '';
    return say`from ${opened} until ${timeOf(closedAt, now)}${often}${story}`;
  }
  if (times > 1 && lastOpenedAt !== null)
    return say`${timeWords(times)} since ${opened}, now since ${timeOf(lastOpenedAt, now)}${story}`;
  const since = ago(openedAt, now);
  return say`since ${opened}${{ html: `, ${since}`, text: ` (${since})` }}${story}`;
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

/** Heads a list that may be cut: `Dead letters`, `10 of 1,204 dead letters`. */
export function titleOf(title: string, shown: number, all: number, counted = count): string {
  return shown < all ? `${shown} of ${counted(all)} ${title.toLowerCase()}` : title;
}
