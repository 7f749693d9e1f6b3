import * as z from 'zod';

import { subscriberNames, subscribersOf } from '../../bus/catalog/catalog.ts';
import { REST } from '../../bus/deliveries/error-group.ts';
import { NEWER_VERSION } from '../../bus/deliveries/newer-version.ts';
import { edgeSentence, edgeWords } from '../../components/incidents/edge-failures.ts';
import { LANES_COUNTED } from '../../components/incidents/halts.ts';
import { NEXT_INCIDENT } from '../../components/incidents/next.ts';
import { computed, field, instant, instantOrNull, jsonOf, shapesOf } from '../kit/fields.ts';
import type { Row } from '../kit/fields.ts';
import { incidentsPath } from '../kit/links.ts';
import { outage, outageFields } from '../kit/pauses.ts';
import { failureText, statusOf } from '../kit/states.ts';
import { count, deliveriesWait, quantity, quantityOfLanes, truncate } from '../kit/words.ts';
import * as shape from '../kit/shapes.ts';

export const incidentId = z.uuid('expected the id of an incident').describe('The id of an incident.');

// What the routes of one incident share.

export const BY_ID = { incidentId };

export const UNKNOWN = `Unknown incident. Copy its id from the list of incidents: ${incidentsPath()}.`;

export const incidentState = z.enum(['happening', 'owed', 'closed']).meta({
  id: 'IncidentState',
  description:
    '`happening`: lanes are blocked now, chat fails, or a day’s budget comes to its end. `owed`: no lane is, and dead letters are left or are being delivered again, or rows are set aside. `closed`: nothing is left of it.',
});

const acknowledgedFields = {
  at: instant('acknowledged_at'),
  by: field(z.string(), 'acknowledged_by'),
  note: field(z.string(), "coalesce(acknowledged_note, '')"),
};

/** Of a row of `incidents`. */
const incidentFields = {
  incidentId: field(incidentId, 'incidents.id'),
  topic: field(
    shape.topic
      .nullable()
      .describe(
        'Null for an outage, which is all topics of the subscriber, for a clock that was ahead, and where chat fails or a day’s budget comes to its end.',
      ),
    "nullif(incidents.topic, '')",
  ),
  subscriber: field(
    z.string().describe('Empty for the bus itself, which sets rows aside, and for chat and budgets.'),
    'incidents.subscriber',
  ),
  state: field(incidentState, 'state'),
  sentence: computed(z.string().describe('What is wrong, in words.')),
  group: field(
    shape.errorGroup
      .nullable()
      .describe(
        'The error group, which its dead letters have too. Null for an outage, payloads that nobody reads, the bus itself, chat and budgets.',
      ),
    "nullif(incidents.error_group, '')",
  ),
  lastError: field(shape.lastError, "json_build_object('kind', kind, 'message', message)"),
  openedAt: instant('opened_at', 'The first failure.'),
  closedAt: instantOrNull('closed_at'),
  times: field(z.int().positive().describe('How often it has happened since then.'), 'times'),
  next: field(
    z
      .object({
        incidentId,
        topic: shape.topic.nullable().describe('Null for an outage.'),
        ...shape.lastError.shape,
      })
      .nullable()
      .describe(
        'Of one that has no blocked lanes any more: the worst that happens now instead, because the subscriber fails with another error or does not answer. Null where its lanes deliver.',
      ),
    NEXT_INCIDENT,
  ),
  blockedLanes: field(
    shape.count.describe(`Counted up to ${LANES_COUNTED} of a subscription.`),
    'blocked_lanes',
  ),
  haltedLanes: field(
    shape.count.describe('The part of them that waits until a dead letter is replayed or dismissed.'),
    'halted_lanes',
  ),
  waiting: field(
    shape.count.describe('Deliveries in these lanes; of a lane of a key up to 100 are counted.'),
    'waiting',
  ),
  owed: field(
    shape.count.describe('Its dead letters; of the bus itself, the rows that it set aside.'),
    'owed',
  ),
  acknowledged: field(
    z.object(shapesOf(acknowledgedFields)).nullable().describe('The operator who has taken it up.'),
    `case when acknowledged_at is not null then ${jsonOf(acknowledgedFields)} end`,
  ),
  paused: field(
    z.boolean().describe('Whether an operator has paused the subscriber.'),
    `exists (
        select from pauses where pauses.subscriber = incidents.subscriber and pauses.topic in ('', incidents.topic)
      )`,
  ),
  outage: field(
    outage.nullable().describe('While the subscriber does not answer.'),
    `(
        select ${jsonOf(outageFields)} from outages
        where incidents.topic = '' and outages.subscriber = incidents.subscriber
      )`,
  ),
  inCatalog: computed(z.boolean().describe('Whether this release’s catalog lists the subscription.')),
};

export const incident = z.object(shapesOf(incidentFields)).meta({
  id: 'Incident',
  description:
    'All that goes wrong in one subscription by one error, from its first failure until nothing is left; or an outage of a subscriber, until it answers.',
});

export type Incident = z.output<typeof incident>;

export type FoundIncident = Row<typeof incidentFields>;

/** A row of `incidents` as JSON. */
export const INCIDENT = jsonOf(incidentFields);

/** What happens now comes first, the most blocked before the longest; then what is over. */
export const WORST_FIRST = `state, waiting desc, owed desc, opened_at, id`;

export function incidentOf(found: FoundIncident): Incident {
  const { topic, subscriber } = found;
  return { ...found, sentence: sentenceOf(found), inCatalog: isListed(topic, subscriber) };
}

/** @param topic null: any. @param subscriber empty: the bus itself. */
function isListed(topic: string | null, subscriber: string): boolean {
  if (subscriber === '') return true;
  return (topic === null ? subscriberNames() : subscribersOf(topic)).includes(subscriber);
}

type Facts = Pick<
  FoundIncident,
  'topic' | 'subscriber' | 'state' | 'lastError' | 'blockedLanes' | 'haltedLanes' | 'waiting' | 'owed'
> & { readonly next?: FoundIncident['next'] };

/** Says in words what is wrong: `ledger answers 503 on payment.captured: 1 lane is blocked, 12 deliveries wait.` */
export function sentenceOf(facts: Facts): string {
  const { topic, subscriber, state, lastError, ...of } = facts;
  const { kind } = lastError;
  const edge = edgeWords(kind);
  if (edge) return edgeSentence(edge, state === 'closed', lastError.message);
  if (subscriber === '') return asideWords(topic, state, of.owed);
  if (topic === null) return outageWords(facts);
  const [now, before] = predicates(kind);
  if (state === 'happening') {
    if (of.blockedLanes === 0) return `${subscriber} ${before} on ${topic}${nextWords(of.next)}.`;
    // The dead letter is what halts it: the subscriber may be well by now.
    if (of.haltedLanes === of.blockedLanes) return `${subscriber} ${before} on ${topic}: ${haltedWords(of)}.`;
    const dead = of.owed > 0 ? `, ${quantity(of.owed, 'dead letter')} so far` : '';
    const halted = of.haltedLanes > 0 ? `, ${count(of.haltedLanes)} of them halted by a dead letter` : '';
    return `${subscriber} ${now} on ${topic}: ${lanesWords(of.blockedLanes, 'blocked')}${halted}, ${deliveriesWait(of.waiting)}${dead}.`;
  }
  const what = `${subscriber} ${before} on ${topic}`;
  if (state === 'closed') return `${what}: over${nextWords(of.next)}.`;
  if (of.owed === 0) return `${what}: its dead letters are being delivered again.`;
  return `${what}: ${quantity(of.owed, 'dead letter')} left.`;
}

/** Of the bus itself: rows that should not exist, or a clock that was ahead. */
function asideWords(topic: string | null, state: Facts['state'], rows: number): string {
  if (topic === null)
    return state === 'closed'
      ? 'The database’s clock was ahead. Somebody has taken note of it.'
      : 'The database’s clock was ahead. The times that it left were taken back.';
  if (state === 'closed') return `The bus had set rows of ${topic} aside. All are repaired.`;
  return `The bus set aside ${quantity(rows, 'row')} of ${topic} that should not exist.`;
}

/** An outage is over when somebody answers; what waited follows by itself. */
function outageWords({ subscriber, state, lastError, blockedLanes, waiting, next }: Facts): string {
  const [now, before] = predicates(lastError.kind);
  if (state === 'closed') return `${subscriber} ${before}, and answers again${nextWords(next)}.`;
  const lanes = quantityOfLanes(blockedLanes);
  return `${subscriber} ${now}: ${deliveriesWait(waiting)} in ${lanes} until it answers.`;
}

/** Says what goes on: `, but now it fails with 500: disk full`. */
function nextWords(next: Facts['next']): string {
  if (!next) return '';
  return `, but now it ${next.topic === null ? 'does not answer' : `fails with ${causeWords(next)}`}`;
}

/** An error as the end of a clause: `500: disk full`. */
export function causeWords(error: shape.LastError): string {
  const { kind, message } = error;
  // A status before its colon would read as the number of the messages.
  if (message === REST) return `${statusOf(kind) ?? kind}: other messages, too many to tell apart`;
  return failureText(error).replace('the subscriber answered ', '').replace(/\.+$/, '');
}

/** The same, short enough for a heading, a tab or a link: it tells the incidents of one subscription apart. */
export function shortCause(error: shape.LastError): string {
  return truncate(60, causeWords(error));
}

function haltedWords({
  haltedLanes,
  waiting,
  owed,
}: Pick<Facts, 'haltedLanes' | 'waiting' | 'owed'>): string {
  const by =
    owed === 1 ? 'its dead letter' : `${owed === haltedLanes ? '' : 'some of '}${count(owed)} dead letters`;
  return `${lanesWords(haltedLanes, 'halted')} by ${by}, ${deliveriesWait(waiting)}`;
}

function lanesWords(lanes: number, what: 'blocked' | 'halted'): string {
  return `${quantityOfLanes(lanes)} ${lanes === 1 ? 'is' : 'are'} ${what}`;
}

/** Says how a subscriber fails, in the present and in the past. */
function predicates(kind: string): readonly [now: string, before: string] {
  const status = statusOf(kind);
  if (status !== null) return [`answers ${status}`, `answered ${status}`];
  if (/timeout/i.test(kind)) return ['does not answer in time', 'did not answer in time'];
  if (kind === 'unreachable') return ['is unreachable', 'was unreachable'];
  if (kind === NEWER_VERSION) return ['cannot read newer payloads', 'could not read newer payloads'];
  if (kind === 'permanent') return ['refuses deliveries', 'refused deliveries'];
  return [`fails with ${kind}`, `failed with ${kind}`];
}
