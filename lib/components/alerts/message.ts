import { NEWER_VERSION } from '../../bus/deliveries/newer-version.ts';
import { DAY, HOUR, MINUTE } from '../../platform/time.ts';
import { timeWords } from '../incidents/times.ts';
import { edgeSentence, edgeWords } from '../incidents/edge-failures.ts';
import { LANES_COUNTED } from '../incidents/halts.ts';
import type { AlertedIncident } from './claim-alerts.ts';

/** Where a message comes from, and where its links lead. */
export interface Origin {
  /** `Production`, `Preview` or `Local`. */
  readonly environment: string;
  /** Of the console; undefined: links are paths. */
  readonly publicUrl: string | undefined;
}

/** The one text of an alert: each channel draws it, none writes another. */
export interface Message {
  /** Tells programs what it is about. */
  readonly type: `incident.${AlertedIncident['change']}` | 'incident.digest' | 'alert.test';
  /** What is worst, and since when: a phone shows no more of it. */
  readonly subject: string;
  /** How many incidents are in which state; null for a single one. */
  readonly summary: string | null;
  readonly entries: readonly Entry[];
  /** How many more there are than entries. */
  readonly more: number;
  readonly incidents: readonly AlertedIncident[];
  readonly origin: Origin;
}

/** What a message says of one incident, each part in one line. */
export interface Entry {
  /** The subscription, its state and since when. */
  readonly title: string;
  /** The error and how much waits or is owed: in a sentence, or in a digest as briefly as it can be. */
  readonly text: string;
  readonly url: string;
}

/** A digest names this many; the console has all. */
export const MOST_ENTRIES = 20;

/** Writes one message about all these incidents. @param incidents at least one, the worst first. */
export function incidentMessage(incidents: readonly AlertedIncident[], origin: Origin): Message {
  const [worst] = incidents;
  const isDigest = incidents.length > 1;
  return {
    type: isDigest ? 'incident.digest' : `incident.${worst!.change}`,
    subject: subjectOf(incidents, origin),
    summary: isDigest ? summaryOf(incidents) : null,
    entries: incidents.slice(0, MOST_ENTRIES).map((incident) => ({
      title: titleOf(incident),
      text: isDigest ? briefOf(incident) : sentenceOf(incident) + storyOf(incident),
      url: `${incidentsUrl(origin)}/${incident.id}`,
    })),
    more: Math.max(0, incidents.length - MOST_ENTRIES),
    incidents,
    origin,
  };
}

/** Writes a message that shows an operator that alerts arrive. */
export function testMessage(origin: Origin): Message {
  return {
    type: 'alert.test',
    subject: `${placeOf(origin)}Test alert: nothing is wrong`,
    summary: null,
    entries: [
      {
        title: 'Test alert',
        text: 'An operator asked for it. Alerts about incidents will arrive here.',
        url: incidentsUrl(origin),
      },
    ],
    more: 0,
    incidents: [],
    origin,
  };
}

/** Draws as many of a message's entries as a channel takes, the worst first, and counts the others. */
export function fitted<Drawing>(
  message: Message,
  draw: (message: Message) => Drawing,
  fits: (drawing: Drawing) => boolean,
): Drawing {
  const { entries, more } = message;
  for (let kept = entries.length; ; kept -= 1) {
    const drawing = draw({ ...message, entries: entries.slice(0, kept), more: more + entries.length - kept });
    if (kept <= 1 || fits(drawing)) return drawing;
  }
}

/** Says how many incidents a message does not name, and where they are; null where it names all. */
export function moreOf({ more, origin }: Message): { readonly words: string; readonly url: string } | null {
  return more === 0 ? null : { words: `And ${more} more`, url: incidentsUrl(origin) };
}

export function footerOf({ origin }: Message): string {
  return `Postbud, ${origin.environment}`;
}

/** Whether an address leads somewhere also from a mailbox or a chat: without `PUBLIC_URL` it is a path. */
export function isLink(url: string): boolean {
  return /^https?:/.test(url);
}

/** Where all incidents are. */
export function incidentsUrl({ publicUrl }: Origin): string {
  return `${publicUrl ?? ''}/platform/event-bus/incidents`;
}

function titleOf(incident: AlertedIncident): string {
  const { state, change, openedAt, closedAt, owed, isAcknowledged, topic, subscriber } = incident;
  if (subscriber === '') return asideTitle(incident);
  const isOutage = topic === '';
  const what = isOutage ? oneLine(subscriber) : `${oneLine(topic)} to ${oneLine(subscriber)}`;
  const since = timeOf(openedAt);
  if (state === 'closed') {
    const span = spanOf(openedAt, closedAt ?? incident.changedAt);
    if (isOutage) return `Over: ${what} answers again, ${span}`;
    return `${overWords(incident) ?? 'Over'}: ${what}, ${span}`;
  }
  const taken = change === 'changed' && isAcknowledged ? 'Acknowledged: ' : '';
  if (state === 'happening') {
    const how = isOutage ? 'No answer' : isHalted(incident) ? 'Halted' : 'Blocked';
    return `${taken}${taken ? how.toLowerCase() : how} since ${since}: ${what}`;
  }
  if (taken) return `${taken}${count(owed, 'dead letter')}, ${what}, since ${since}`;
  return change === 'opened'
    ? `${count(owed, 'dead letter')} since ${since}: ${what}`
    : `${overWords(incident) ?? 'No longer blocked'}: ${what}, since ${since}`;
}

/** Says what it gave way to; null where its lanes deliver. */
function overWords({ next }: AlertedIncident): string | null {
  if (next === null) return null;
  return next.topic === null ? 'Part of an outage now' : 'Another error now';
}

/** Of the bus itself, of chat or of a budget. */
function asideTitle({ topic, kind, state, owed, openedAt }: AlertedIncident): string {
  const edge = edgeWords(kind);
  if (edge) return `${state === 'closed' ? 'Over' : `Since ${timeOf(openedAt)}`}: ${edge.title}`;
  const what =
    topic === '' ? 'the database’s clock was ahead' : `${count(owed, 'row')} of ${oneLine(topic)} set aside`;
  if (state !== 'closed') return `Since ${timeOf(openedAt)}: ${what}`;
  return topic === '' ? `Over: ${what}` : `Over: rows of ${oneLine(topic)} were set aside`;
}

/** Whether nothing but dead letters holds its lanes. */
function isHalted({ blockedLanes, haltedLanes }: AlertedIncident): boolean {
  return haltedLanes > 0 && haltedLanes === blockedLanes;
}

function subjectOf(incidents: readonly AlertedIncident[], origin: Origin): string {
  const others = incidents.length - 1;
  const more = others === 0 ? '' : `, and ${count(others, 'more incident', 'more incidents')}`;
  return `${placeOf(origin)}${titleOf(incidents[0]!)}${more}`;
}

/** Names the deployment where it is not the one that everybody thinks of. */
function placeOf({ environment }: Origin): string {
  return environment === 'Production' ? '' : `[${environment}] `;
}

function summaryOf(incidents: readonly AlertedIncident[]): string {
  const inState = (state: AlertedIncident['state']) => incidents.filter((one) => one.state === state).length;
  const parts = [
    [inState('happening'), 'blocked'],
    [inState('owed'), 'with dead letters'],
    [inState('closed'), 'over'],
  ] as const;
  const counted = parts.filter(([number]) => number > 0).map(([number, words]) => `${number} ${words}`);
  return `${incidents.length} incidents: ${counted.join(', ')}.`;
}

function sentenceOf(incident: AlertedIncident): string {
  const { state, topic, subscriber, blockedLanes, haltedLanes, waiting, owed, openedAt, closedAt } = incident;
  if (subscriber === '') return asideSentence(incident);
  const waits = `${count(waiting, 'delivery', 'deliveries')} waiting`;
  const name = oneLine(subscriber);
  const error = errorOf(incident);
  const cause = `The error was ${error}.`;
  const left = owed > 0 ? ` ${count(owed, 'dead letter')} to replay or dismiss.` : '';
  switch (state) {
    case 'happening': {
      if (topic === '') return outageSentence(incident, name, error);
      if (isHalted(incident)) {
        return `A dead letter of ${name} halts ${lanesOf(haltedLanes)} until it is replayed or dismissed, ${waits}. ${cause}`;
      }
      if (incident.kind === NEWER_VERSION) {
        return `${name} cannot read payloads: ${oneLine(incident.message)}. ${lanesOf(blockedLanes)} blocked, ${waits}, without using up attempts.`;
      }
      const halted = haltedLanes > 0 ? ` (${haltedLanes} of them halted by a dead letter)` : '';
      return `${name} fails with ${error}. ${lanesOf(blockedLanes)} blocked${halted}, ${waits}.${left}`;
    }
    case 'owed':
      return `No lane of ${oneLine(topic)} is blocked for ${name}${incident.next === null ? '' : ' by it'}.${left || ' Its replay is under way.'} ${cause}${nextOf(incident)}`;
    case 'closed':
      return `It lasted ${duration((closedAt ?? incident.changedAt) - openedAt)}. ${cause}${nextOf(incident)}`;
  }
}

/** Says what goes on: ` Now ledger fails with http_500: disk full.` */
function nextOf({ next, subscriber }: AlertedIncident): string {
  if (next === null) return '';
  const how = next.topic === null ? 'does not answer' : `fails with ${errorOf(next)}`;
  return ` Now ${oneLine(subscriber)} ${how}.`;
}

/** Says in a digest what the error is, and how much waits or is owed. */
function briefOf(incident: AlertedIncident): string {
  const { state, subscriber, topic, blockedLanes, waiting, owed } = incident;
  if (subscriber === '' || state === 'closed') return sentenceOf(incident);
  const counts = [
    topic !== '' &&
      blockedLanes > 0 &&
      `${lanesOf(blockedLanes)} ${isHalted(incident) ? 'halted' : 'blocked'}`,
    waiting > 0 && `${count(waiting, 'delivery', 'deliveries')} waiting`,
    owed > 0 && count(owed, 'dead letter'),
  ].filter((part) => part !== false);
  return `${errorOf(incident)}. ${counts.length === 0 ? 'Its replay is under way' : counts.join(', ')}.`;
}

function errorOf({ kind, message }: Pick<AlertedIncident, 'kind' | 'message'>): string {
  return `${oneLine(kind)}: ${oneLine(message)}`;
}

/** Says how often it has happened since it began. */
function storyOf({ times, state }: AlertedIncident): string {
  return times > 1 && state === 'happening' ? ` It is the ${timeWords(times)} since then.` : '';
}

function asideSentence(incident: AlertedIncident): string {
  const { id, topic, kind, message, state, changedAt, closedAt, openedAt } = incident;
  const edge = edgeWords(kind);
  if (edge && state !== 'closed') return edgeSentence(edge, false, oneLine(message));
  if (state === 'closed') return `It lasted ${duration((closedAt ?? changedAt) - openedAt)}.`;
  return topic === ''
    ? 'The times that it left were taken back. Check the time synchronisation of the database’s machine.'
    : `They should not exist, and stop nothing else. List them with npx postbud incidents ${id}, and repair each.`;
}

function outageSentence({ waiting, nextProbeAt }: AlertedIncident, name: string, error: string): string {
  const next = nextProbeAt === null ? '' : ` The next probe is at ${timeOf(nextProbeAt)}.`;
  return `${name} does not answer: ${error}. ${count(waiting, 'delivery waits', 'deliveries wait')} without using up attempts; one at a time probes.${next} When it answers, all follow.`;
}

const LONGEST = 300;

/** Makes a text of elsewhere one line without characters that hide or turn others. */
export function oneLine(text: string, longest = LONGEST): string {
  const line = text
    .replaceAll(/\s+/gu, ' ')
    .replaceAll(/\p{Cc}|(?!\u200D)\p{Cf}|\p{Cs}/gu, '\u{FFFD}')
    .trim();
  return clipped(line, longest);
}

/** Cuts a text to a number of UTF-16 units, between two characters. */
export function clipped(text: string, longest: number): string {
  return text.length <= longest
    ? text
    : `${text
        .slice(0, longest - 1)
        .replace(/[\uD800-\uDBFF]$/, '')
        .trimEnd()}…`;
}

function count(number: number, one: string, many = `${one}s`): string {
  return `${number.toLocaleString('en-GB')} ${number === 1 ? one : many}`;
}

function lanesOf(number: number): string {
  return number < LANES_COUNTED ? count(number, 'lane') : `${number.toLocaleString('en-GB')}+ lanes`;
}

function duration(ms: number): string {
  if (ms < HOUR) return count(Math.max(1, Math.round(ms / MINUTE)), 'minute');
  return ms < 2 * DAY ? count(Math.round(ms / HOUR), 'hour') : count(Math.round(ms / DAY), 'day');
}

/** Made when a message is written: the time zones take some 20 ms of a function's start. */
function inOslo(options: Intl.DateTimeFormatOptions): Intl.DateTimeFormat {
  return new Intl.DateTimeFormat('en-GB', { timeZone: 'Europe/Oslo', ...options });
}

/** `22 Nov 00:31 to 00:41 CET`. */
function spanOf(from: number, to: number): string {
  const [first, last] = [clockOf(from), timeOf(to)];
  const day = first.slice(0, -5);
  return `${first} to ${last.startsWith(day) ? last.slice(day.length) : last}`;
}

/** `22 Nov 00:31 CET`: a mail may be read on another day, and its subject in another country. */
function timeOf(ms: number): string {
  const parts = inOslo({ timeZoneName: 'short' }).formatToParts(ms);
  return `${clockOf(ms)} ${parts.find(({ type }) => type === 'timeZoneName')!.value}`;
}

const CLOCK = {
  day: 'numeric',
  month: 'short',
  hour: '2-digit',
  minute: '2-digit',
  hourCycle: 'h23',
} as const;

function clockOf(ms: number): string {
  return inOslo(CLOCK).format(ms).replace(',', '');
}
