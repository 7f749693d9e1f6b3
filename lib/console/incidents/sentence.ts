import { NEWER_VERSION } from '../../bus/deliveries/newer-version.ts';
import { REST } from '../../bus/deliveries/error-group.ts';
import { edgeSentence, edgeWords } from '../../components/incidents/edge-failures.ts';
import type { LastError } from '../kit/shapes.ts';
import { failureText, statusOf } from '../kit/states.ts';
import { count, quantity, quantityOfLanes, truncate } from '../kit/words.ts';

interface Facts {
  /** Null for an outage, and where the bus is not concerned. */
  readonly topic: string | null;
  readonly subscriber: string;
  readonly state: 'happening' | 'owed' | 'closed';
  readonly lastError: LastError;
  readonly blockedLanes: number;
  readonly haltedLanes: number;
  readonly waiting: number;
  readonly owed: number;
  readonly next?: (LastError & { readonly topic: string | null }) | null;
}

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
    return `${subscriber} ${now} on ${topic}: ${lanesWords(of.blockedLanes, 'blocked')}${halted}, ${waitingWords(of)}${dead}.`;
  }
  const what = `${subscriber} ${before} on ${topic}`;
  if (state === 'closed')
    return `${what}: over${!of.next ? ', and nothing is left of it' : nextWords(of.next)}.`;
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
  return `${subscriber} ${now}: ${waitingWords({ waiting })} in ${lanes} until it answers.`;
}

/** Says what goes on: `, but now it fails with 500: disk full`. */
function nextWords(next: Facts['next']): string {
  if (!next) return '';
  return `, but now it ${next.topic === null ? 'does not answer' : `fails with ${causeWords(next)}`}`;
}

/** An error as the end of a clause: `500: disk full`. */
export function causeWords(error: LastError): string {
  const { kind, message } = error;
  // A status before its colon would read as the number of the messages.
  if (message === REST) return `${statusOf(kind) ?? kind}: other messages, too many to tell apart`;
  return failureText(error).replace('the subscriber answered ', '').replace(/\.+$/, '');
}

/** The same, short enough for a heading, a tab or a link: it tells the incidents of one subscription apart. */
export function shortCause(error: LastError): string {
  return truncate(60, causeWords(error));
}

function haltedWords({
  haltedLanes,
  waiting,
  owed,
}: Pick<Facts, 'haltedLanes' | 'waiting' | 'owed'>): string {
  const by =
    owed === 1 ? 'its dead letter' : `${owed === haltedLanes ? '' : 'some of '}${count(owed)} dead letters`;
  return `${lanesWords(haltedLanes, 'halted')} by ${by}, ${waitingWords({ waiting })}`;
}

function lanesWords(lanes: number, what: 'blocked' | 'halted'): string {
  return `${quantityOfLanes(lanes)} ${lanes === 1 ? 'is' : 'are'} ${what}`;
}

function waitingWords({ waiting }: Pick<Facts, 'waiting'>): string {
  return `${quantity(waiting, 'delivery')} ${waiting === 1 ? 'waits' : 'wait'}`;
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
