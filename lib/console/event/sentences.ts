import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { haltWords } from '../deliveries/halts.ts';
import { silenceWords } from '../incidents/outage.ts';
import { timeText, time } from '../kit/instants.ts';
import { eventPath } from '../kit/links.ts';
import { operatorText } from '../kit/operator-names.ts';
import type { OperatorNames } from '../kit/operator-names.ts';
import { endsOf } from '../kit/prepared.ts';
import { capitalize, count, joinNames, quantity, shortId } from '../kit/words.ts';
import { failureClause } from './failure.ts';
import type { EventDelivery, InFront, OpenProducer, Why } from './view.ts';

// Each sentence is made once, of words, instants, events and operators. The JSON and the command line have it as plain text,
// the page with links.

type Part =
  | string
  | { readonly at: string }
  | { readonly operator: string }
  | Pick<InFront, 'eventId' | 'subject'>;

/** A sentence without its capital and its full stop. */
type Sentence = readonly Part[];

/** A reason in words needs all of it but the words. */
export type Reason = Omit<Why, 'text' | 'also'>;

/** Writes a sentence as text. */
export function written(sentence: Sentence, now: string, names: OperatorNames): string {
  const texts = sentence.map((part) => {
    if (typeof part === 'string') return part;
    if ('operator' in part) return operatorText(part.operator, names);
    return 'at' in part ? timeText(part.at, now) : nameOf(part);
  });
  return `${capitalize(texts.join(''))}.`;
}

/** Draws a sentence with its links. */
export function drawn(sentence: Sentence, now: string, names: OperatorNames): Html {
  const [first, ...others] = sentence;
  const parts = typeof first === 'string' ? [capitalize(first), ...others] : sentence;
  return html`${parts.map((part) => {
    if (typeof part === 'string') return part;
    if ('operator' in part) return operatorText(part.operator, names);
    return 'at' in part
      ? time(part.at, now)
      : html`<a class="mono" href="${eventPath(part.eventId)}">${nameOf(part)}</a>`;
  })}.`;
}

function nameOf({ subject, eventId }: Pick<InFront, 'eventId' | 'subject'>): string {
  return subject ?? shortId(eventId);
}

/** Says where an event is: to whom it is delivered, who gave it up, and why it waits for the others. */
export function verdictOf(deliveries: readonly EventDelivery[]): Sentence {
  const waiting = deliveries.flatMap(({ subscriber, why }) => (why ? [{ subscriber, why }] : []));
  const dead = deliveries.filter(({ deadLetteredAt }) => deadLetteredAt !== null);
  const dismissed = deliveries.filter(({ dismissedAt }) => dismissedAt !== null);
  if (deliveries.length === 0) return ['No subscriber is to receive it'];
  const clauses = [
    ...deadClauses(dead),
    ...waitingClauses(waiting, deliveries.length),
    ...dismissedClauses(dismissed),
  ];
  if (clauses.length === 0) return deliveredClause(deliveries);
  return clauses.flatMap((clause, index) => (index === 0 ? clause : ['; ', ...clause]));
}

function deliveredClause(deliveries: readonly EventDelivery[]): Sentence {
  const last = deliveries
    .flatMap(({ deliveredAt }) => deliveredAt ?? [])
    .toSorted()
    .at(-1);
  const names = joinNames(deliveries.map(({ subscriber }) => subscriber));
  if (last === undefined) return [`delivered to ${names}`];
  return [`delivered to ${names}${deliveries.length > 1 ? ', the last' : ''} at `, { at: last }];
}

function deadClauses(dead: readonly EventDelivery[]): readonly Sentence[] {
  const [first] = dead;
  if (!first) return [];
  const { deadLetteredAt, lastError, attempts, halts } = first;
  const names = joinNames(dead.map(({ subscriber }) => subscriber));
  const at: Sentence = deadLetteredAt === null ? [] : [' at ', { at: deadLetteredAt }];
  if (dead.length > 1) return [[`dead-lettered for ${names}, the first`, ...at]];
  const last = attempts.at(-1);
  if (last?.outcome === 'skipped')
    return [[`dead-lettered for ${names}`, ...at, ': skipped by ', { operator: last.by }]];
  return [
    [
      `dead-lettered for ${names}`,
      ...at,
      lastError === null ? '' : `: it ${failureClause(lastError)}`,
      halts === null ? '' : `; this ${haltWords(halts)}`,
    ],
  ];
}

function dismissedClauses(dismissed: readonly EventDelivery[]): readonly Sentence[] {
  const [first] = dismissed;
  if (!first) return [];
  const names = joinNames(dismissed.map(({ subscriber }) => subscriber));
  const last = first.attempts.at(-1);
  if (last?.outcome !== 'dismissed') return [[`dismissed for ${names}`]];
  return [[`dismissed for ${names} by `, { operator: last.by }, because(last.reason)]];
}

interface Waiting {
  readonly subscriber: string;
  readonly why: Why;
}

/** Says the two first reasons. A sentence with more is not read to its end. */
const REASONS_IN_VERDICT = 2;

function waitingClauses(waiting: readonly Waiting[], all: number): readonly Sentence[] {
  const byReason = new Map<string, Waiting[]>();
  for (const one of waiting) {
    // “It” is one subscriber.
    const key = one.why.code === 'backoff' ? one.subscriber : one.why.text;
    byReason.set(key, [...(byReason.get(key) ?? []), one]);
  }
  const groups = [...byReason.values()].toSorted(
    (one, other) => Number(isFailing(other[0]!)) - Number(isFailing(one[0]!)),
  );
  const said = groups.slice(0, REASONS_IN_VERDICT);
  const others = groups.slice(REASONS_IN_VERDICT).flat();
  return [
    ...said.map((group) => {
      const names =
        group.length === all && all > 1 ? 'anyone' : joinNames(group.map(({ subscriber }) => subscriber));
      return [`not delivered to ${names}: `, ...reasonWords(group[0]!.why)];
    }),
    ...(others.length > 0 ? [[`${quantity(others.length, 'more subscriber')} not reached yet`]] : []),
  ];
}

/** What an operator can end comes before what waits for a deployment. */
function isFailing({ why }: Waiting): boolean {
  return ['backoff', 'halted', 'outage'].some((code) => code === why.code || code === why.behind?.code);
}

/** Says why a delivery waits. `it` is the subscriber. */
export function reasonWords(reason: Reason): Sentence {
  const { since, until, by, behind } = reason;
  switch (reason.code) {
    case 'relay_stopped':
      return since === null
        ? ['no relay has ever run on this database']
        : ['no relay has run since ', { at: since }];
    case 'timer':
      return timerWords(reason);
    case 'producer_open':
      return producerWords(reason.producers);
    case 'not_fanned_out':
      return ['it awaits its place in the order', ...sinceWords(since)];
    case 'not_in_catalog':
      return ['this release’s catalog does not list the subscription; it waits for a release that does'];
    case 'unattached':
      return ['this deployment has no handler and no endpoint for the subscriber'];
    case 'paused':
      return ['paused by ', operatorIn(by), ...sinceWords(since), because(reason.reason)];
    case 'outage':
      return outageWords(reason);
    case 'backfill':
      return [
        'older events come first: ',
        operatorIn(by),
        ' has been backfilling them',
        ...sinceWords(since),
        reason.reason === null ? '' : ` (${reason.reason.replace(/\.+$/, '')})`,
      ];
    case 'halted':
      return behind ? haltedWords(behind, since) : [];
    case 'behind':
      return behind ? behindWords(behind) : [];
    case 'leased':
      return [
        'a relay is delivering it now',
        ...(until === null ? [] : [', its lease ends ', { at: until }]),
      ];
    case 'newer_version':
      return [`it waits for a release that reads payload version ${reason.neededVersion}`];
    case 'backoff':
      return backoffWords(reason);
    case 'rate_limited':
      return limitWords(reason);
    case 'due':
      return ['due', ...sinceWords(since), ', the relay takes it when it next looks'];
  }
}

function timerWords({ until, reason }: Reason): Sentence {
  if (reason !== null)
    return ['it is set for later, and the catalog refuses its payload: see what is set aside'];
  return until === null ? [] : ['it is set for later: it happens at ', { at: until }];
}

function limitWords({ since, until, reason }: Reason): Sentence {
  const through: Sentence =
    until === null
      ? [', and so many are being delivered']
      : ['; all that waits for it is through at about ', { at: until }];
  return ['due', ...sinceWords(since), `; the subscriber’s limit is ${reason}`, ...through];
}

function operatorIn(by: string | null): Part {
  return by === null ? 'an operator' : { operator: by };
}

/** An operator's reason, without a full stop of its own. */
function because(reason: string | null): string {
  return reason === null ? '' : `: ${reason.replace(/\.+$/, '')}`;
}

function sinceWords(since: string | null): Sentence {
  return since === null ? [] : [' since ', { at: since }];
}

function backoffWords({ lastError, until }: Reason): Sentence {
  const next: Sentence = until === null ? [] : [{ at: until }];
  return lastError === null
    ? ['it asked to wait until ', ...next]
    : [`it ${failureClause(lastError)}; next try `, ...next];
}

function outageWords({ outage, since, until }: Reason): Sentence {
  if (outage === null || since === null || until === null) return [];
  const { kind, probes } = outage;
  const probed = probes === 0 ? '' : `${quantity(probes, 'probe')} without an answer, `;
  return [`it ${silenceWords(kind)} since `, { at: since }, `; ${probed}next probe `, { at: until }];
}

function haltedWords({ eventId, subject, deliveryId, lastError }: InFront, since: string | null): Sentence {
  const failed = lastError === null ? '' : `, because it ${failureClause(lastError)}`;
  return [
    'halted behind ',
    { eventId, subject },
    ', which was dead-lettered',
    ...(since === null ? [] : [' at ', { at: since }]),
    `${failed}; it goes on when dead letter ${deliveryId} is replayed or dismissed`,
  ];
}

function behindWords(inFront: InFront): Sentence {
  const { eventId, subject, count: number, isMore, code, nextAttemptAt, lastError } = inFront;
  const failed = lastError === null ? '' : `, which ${failureClause(lastError)}`;
  const next: Sentence = nextAttemptAt === null ? [] : [{ at: nextAttemptAt }];
  const state: Readonly<Record<string, Sentence>> = {
    backoff: lastError === null ? [', which waits until ', ...next] : [failed, '; next try ', ...next],
    leased: [
      failed,
      lastError === null ? ', which a relay is delivering now' : '; a relay is trying it again',
    ],
    newer_version: [', which waits for a release that reads its payload version'],
    outage: [failed],
    rate_limited: [failed, `${failed === '' ? ', which waits' : '; it waits'} for the subscriber’s limit`],
    due: [failed, lastError === null ? ', which is due now' : '; due again now'],
  };
  return [`${placeWords(number, isMore)} behind `, { eventId, subject }, ...(state[code] ?? [])];
}

const ORDINALS = [
  '',
  'next',
  'second',
  'third',
  'fourth',
  'fifth',
  'sixth',
  'seventh',
  'eighth',
  'ninth',
  'tenth',
] as const;

function placeWords(number: number, isMore: boolean): string {
  if (isMore) return `over ${count(number)} places`;
  return ORDINALS[number] ?? `${count(number)} places`;
}

/** Names the process of the oldest transaction, as far as Postgres tells. */
function producerWords(producers: readonly OpenProducer[]): Sentence {
  const [first, ...others] = producers;
  if (!first) return ['a producer’s transaction is open'];
  const { applicationName, pid, clientAddress, state, since, prepared } = first;
  const more = others.length === 0 ? '' : `, and ${quantity(others.length, 'other transaction')}`;
  if (prepared !== null) {
    const named = `the prepared transaction ${prepared.gid} of ${prepared.owner}`;
    return [
      `${named} has held its topic back`,
      ...sinceWords(since),
      `${more}; end it with ${endsOf(prepared).join(' or ')}`,
    ];
  }
  const process = pid === null ? 'unknown process' : `process ${pid}`;
  const named = [
    applicationName,
    clientAddress === null ? process : `${process} at ${clientAddress}`,
    state,
  ].filter((fact) => fact !== null);
  return [`a producer’s transaction (${named.join(', ')}) has been open`, ...sinceWords(since), more];
}
