import { inspect } from 'node:util';

import type { Transaction } from '../../platform/db/connect.ts';
import { LONGEST_TIME_LIMIT_MS } from '../../platform/lifetime.ts';
import { log } from '../../platform/log.ts';
import { nearest } from '../../platform/nearest.ts';
import { rateOf, SECOND } from '../../platform/time.ts';
import type { Rate } from '../../platform/time.ts';
import { topics } from '../catalog/catalog.ts';
import type { Subscriber, TopicName, TopicsOf, VersionedPayload } from '../catalog/catalog.ts';
import { defaultsOf } from './defaults.ts';
import type { Place } from './defaults.ts';
import { NotDelivered } from './outcome.ts';
import { watched } from './watched.ts';

/** An event as handlers receive it. Frozen, because the topic's subscribers share it. */
export type BusEvent<Name extends TopicName = TopicName> = Recorded<Name> & VersionedPayload<Name>;

/** An event without its payload. */
interface Recorded<Name extends TopicName> {
  /** UUIDv7; the same at every attempt and replay, so that a handler can recognise an event that it has handled. */
  readonly id: string;
  readonly topic: Name;
  readonly producer: string;
  /** The database's clock when the event was recorded, cut to milliseconds. */
  readonly createdAt: Date;
  /** Breaks ties of `createdAt` among the events of a topic. */
  readonly seq: number;
  /** Empty where the lane is the whole topic. */
  readonly orderingKey: string;
  readonly correlationId: string;
  readonly causationId: string | null;
  readonly traceparent: string | null;
  /** Whether the personal data in the payload was overwritten, because a person is to be forgotten. */
  readonly erased: boolean;
}

/** The attempt that a handler is called for. */
export interface DeliveryContext {
  readonly deliveryId: string;
  /** Counted from 1; from 1 again after a replay. */
  readonly attempt: number;
  /** When this attempt began, by the database's clock, like `createdAt`. */
  readonly attemptedAt: Date;
  /** Whether an operator replayed this delivery. Later events of the lane may have been delivered already. */
  readonly replayed: boolean;
  /** Aborts when the time limit is reached. After that the relay no longer waits for the handler. */
  readonly signal: AbortSignal;
}

export interface TransactionalContext extends DeliveryContext {
  /** Commits together with the record that this delivery was delivered, or not at all. */
  readonly tx: Transaction;
}

/** The attempts that a handler of batches is called for. */
export interface BatchContext extends Pick<DeliveryContext, 'attemptedAt' | 'signal'> {
  /** One for each event, in order. */
  readonly deliveries: readonly Pick<DeliveryContext, 'deliveryId' | 'attempt' | 'replayed'>[];
}

export interface TransactionalBatchContext extends BatchContext {
  /** Commits together with the record that the events which the handler took were delivered, or not at all. */
  readonly tx: Transaction;
}

/** The event just before another one in its order. */
export interface PreviousEvent {
  readonly id: string;
  /** Whether it was given up: it is a dead letter, dismissed or not. */
  readonly wasSkipped: boolean;
}

/** A handler says by throwing that it did not take its event; a value would say nothing. */
type Returned = void | PromiseLike<void>;

/** How many events a handler of batches took, counted from the first; undefined for all. */
type Taken = number | undefined | void;

export interface SubscriberOptions {
  /** Time limit of one attempt in milliseconds; 10 seconds by default (15 elsewhere), a minute at most. */
  readonly timeoutMs?: number;
  /** How many failed attempts dead-letter a delivery, 1 to 6; 5 by default. */
  readonly maxAttempts?: number;
  /**
   * What a dead letter does to its lane, or, with ordering keys, to its key: the later events follow (`continue`, the
   * default), or wait until an operator replays or dismisses it (`halt`).
   */
  readonly afterDeadLetter?: 'continue' | 'halt';
  /**
   * What happens when nobody is there (`unreachable`, `timeout`, `http_502`, `http_503`, `http_504`): each delivery fails
   * and is retried by itself (`off`, the default in process), or, once one finds nobody again and its subscriber has answered
   * nobody between, all wait without using up attempts while one probes (`wait`, the default for a component elsewhere).
   */
  readonly outage?: 'wait' | 'off';
  /** Whether operators' replays reach the handlers (`run`, the default) or leave their deliveries out (`refuse`). */
  readonly onReplay?: 'run' | 'refuse';
  /**
   * At most so many deliveries in a second, a minute, an hour or a day, over all relays together: `600/m`. At most a
   * twentieth of them comes at once. Retries and replays count too.
   */
  readonly rate?: string;
  /** At most so many handlers at once, over all relays together. */
  readonly concurrency?: number;
}

/** What holds over all relays together; null for no limit. */
export interface Limits {
  readonly rate: Rate | null;
  readonly concurrency: number | null;
}

type Handlers<Name extends Subscriber, Context> = {
  readonly [T in TopicsOf<Name>]?: (event: BusEvent<T>, context: Context) => Returned;
};

type BatchHandlers<Name extends Subscriber, Context> = {
  readonly [T in TopicsOf<Name>]?: (
    events: readonly BusEvent<T>[],
    context: Context,
  ) => Taken | PromiseLike<Taken>;
};

interface SharesCommits {
  /**
   * False for a handler with effects outside the database, such as a mail: the failure of another delivery in its commit
   * would make it send again. True by default.
   */
  readonly sharesCommits?: boolean;
}

/** A component of the catalog with its handlers. */
export interface AttachedSubscriber extends Required<Omit<SubscriberOptions, keyof Limits> & SharesCommits> {
  readonly name: string;
  readonly place: Place;
  /** The host of its endpoint; null for one in this process. */
  readonly host: string | null;
  readonly handlers: ReadonlyMap<string, Handler>;
  readonly transactional: boolean;
  /** Null: handlers take events one by one. */
  readonly batch: BatchLimits | null;
  readonly limits: Limits | null;
}

/** Limits of a batch, in addition to the number of its events. A batch has at least one event. */
export interface BatchLimits {
  readonly bytesOf: (event: BusEvent) => number;
  readonly maxBytes: number;
}

/**
 * A handler whose topic the compiler no longer knows. Only the relay calls it, with an event of its topic or a batch of
 * them, and with `tx` if it is transactional.
 */
export type Handler = Handling<BusEvent | readonly BusEvent[], DeliveryContext | BatchContext>;

/** A handler of single events. Where it is attached elsewhere, it learns which event came before. */
type EventHandler = Handling<BusEvent, DeliveryContext & { previous?: PreviousEvent | null }>;

type BatchHandler = Handling<
  readonly BusEvent[],
  BatchContext & { previous?: readonly (PreviousEvent | null)[] }
>;

/** Written as a method, because TypeScript compares methods' parameters less strictly. */
type Handling<Given, Context> = {
  handle(given: Given, context: Context & { tx?: Transaction }): unknown;
}['handle'];

type ByTopic<AnyHandler> = Readonly<Record<string, AnyHandler | undefined>>;

/** Events that stay in the process have no size. */
const IN_PROCESS: BatchLimits = { bytesOf: () => 0, maxBytes: 0 };

/**
 * Attaches a component to topics that the catalog lists it for.
 *
 * When a handler returns, its event is delivered; when it throws, the event is retried (see `PermanentError` and
 * `RetryAfter`).
 *
 * @param name the component's name in the catalog.
 * @param handlers by topic. Without a handler a topic is unattached: its deliveries wait.
 * @param options with `transactional: true` each handler gets `context.tx`, and what it writes there takes effect exactly
 *   once. With `batch: true` it gets an array of events, in order, and returns how many it took, counted from the first:
 *   undefined means all, a throw none. The first event that it did not take has failed; those behind it are delivered again.
 * @throws TypeError for a topic that the catalog does not list the component for, or options out of range.
 */
export function subscriber<Name extends Subscriber>(
  name: Name,
  handlers: BatchHandlers<Name, TransactionalBatchContext>,
  options: SubscriberOptions & { readonly transactional: true; readonly batch: true },
): AttachedSubscriber;
export function subscriber<Name extends Subscriber>(
  name: Name,
  handlers: BatchHandlers<Name, BatchContext>,
  options: SubscriberOptions & { readonly transactional?: false; readonly batch: true },
): AttachedSubscriber;
export function subscriber<Name extends Subscriber>(
  name: Name,
  handlers: Handlers<Name, TransactionalContext>,
  options: SubscriberOptions & SharesCommits & { readonly transactional: true; readonly batch?: false },
): AttachedSubscriber;
export function subscriber<Name extends Subscriber>(
  name: Name,
  handlers: Handlers<Name, DeliveryContext>,
  options?: SubscriberOptions & { readonly transactional?: false; readonly batch?: false },
): AttachedSubscriber;
export function subscriber(
  name: string,
  handlers: ByTopic<Handler>,
  { batch = false, ...options }: AnyOptions & { readonly batch?: boolean } = {},
): AttachedSubscriber {
  requireKnown(name, options);
  for (const [option, value] of Object.entries({ batch, ...options }))
    if (FLAGS.has(option) && value !== undefined && typeof value !== 'boolean')
      throw new TypeError(`${name}: expected ${option}: true or false, not ${inspect(value)}`);
  return attachHandlers(name, handlers, options, batch ? IN_PROCESS : null);
}

type AnyOptions = {
  readonly [Name in keyof SubscriberOptions]?: SubscriberOptions[Name] | undefined;
} & SharesCommits & {
    readonly transactional?: boolean;
    readonly place?: Place;
    readonly host?: string;
  };

/** Attaches a component whose name and topics only the running program knows. @throws TypeError as `subscriber` */
export function attach(
  name: string,
  handlers: ByTopic<EventHandler>,
  options: AnyOptions = {},
): AttachedSubscriber {
  return attachHandlers(name, handlers, options, null);
}

/** Attaches a component with handlers of batches, as `attach` does. @param limits by default only the number of events. */
export function attachBatches(
  name: string,
  handlers: ByTopic<BatchHandler>,
  options: AnyOptions = {},
  limits = IN_PROCESS,
): AttachedSubscriber {
  return attachHandlers(name, handlers, options, limits);
}

function attachHandlers(
  name: string,
  handlers: ByTopic<Handler>,
  options: AnyOptions,
  batch: BatchLimits | null,
): AttachedSubscriber {
  const { place = 'in_process', host = null, transactional = false, sharesCommits = true } = options;
  const byDefault = defaultsOf(place);
  const { timeoutMs = byDefault.timeoutMs, maxAttempts = byDefault.maxAttempts } = options;
  const { afterDeadLetter = byDefault.afterDeadLetter, outage = byDefault.outage } = options;
  const { onReplay = byDefault.onReplay } = options;
  if (!(typeof timeoutMs === 'number' && timeoutMs >= 1 && timeoutMs <= LONGEST_TIME_LIMIT_MS)) {
    throw new TypeError(
      `${name}: expected a timeoutMs of 1 to ${LONGEST_TIME_LIMIT_MS}, which fits into the life of a function, not ${inspect(timeoutMs)}`,
    );
  }
  // So many seconds would be a limit too.
  if (timeoutMs * SECOND <= LONGEST_TIME_LIMIT_MS)
    log(
      'warn',
      `the time limit of a subscriber’s handlers is ${timeoutMs} ms: for seconds write timeoutMs: ${timeoutMs}_000`,
      { subscriber: name },
    );
  if (!Number.isInteger(maxAttempts) || maxAttempts < 1 || maxAttempts > 6) {
    throw new TypeError(`${name}: expected a maxAttempts of 1 to 6, not ${maxAttempts}`);
  }
  requireOneOf(name, 'afterDeadLetter', afterDeadLetter, ['continue', 'halt']);
  requireOneOf(name, 'outage', outage, ['wait', 'off']);
  requireOneOf(name, 'onReplay', onReplay, ['run', 'refuse']);
  const limits = limitsOf(name, options);
  const byTopic = new Map<string, Handler>();
  for (const [topic, handler] of Object.entries(handlers)) {
    if (!topicsOf(name).includes(topic)) {
      throw new TypeError(
        `${name} is not a subscriber of ${topic}: list it in lib/bus/catalog, or remove the handler`,
      );
    }
    if (typeof handler !== 'function')
      throw new TypeError(
        `${name}: expected a function for ${topic}, such as async (event) => { … }, not ${inspect(handler)}`,
      );
    const called =
      place === 'in_process'
        ? watched(handler, { subscriber: name, topic, timeoutMs, counts: batch !== null })
        : handler;
    byTopic.set(topic, onReplay === 'refuse' ? refusing(called) : called);
  }
  return {
    name,
    place,
    host,
    handlers: byTopic,
    transactional,
    sharesCommits,
    batch,
    timeoutMs,
    maxAttempts,
    afterDeadLetter,
    outage,
    onReplay,
    limits,
  };
}

/** @throws TypeError for a rate or a concurrency that is none */
export function limitsOf(name: string, { rate: text, concurrency }: AnyOptions): Limits | null {
  const rate = text === undefined ? null : rateOf(text);
  if (text !== undefined && rate === null)
    throw new TypeError(
      `${name}: expected a rate such as '10/s', '600/m', '5000/h' or '1000/d', not ${inspect(text)}`,
    );
  if (
    concurrency !== undefined &&
    !(Number.isInteger(concurrency) && concurrency >= 1 && concurrency <= 1000)
  )
    throw new TypeError(`${name}: expected a concurrency of 1 to 1000, not ${inspect(concurrency)}`);
  return rate === null && concurrency === undefined ? null : { rate, concurrency: concurrency ?? null };
}

const REFUSED = 'the delivery was replayed, and its subscriber refuses replays: it was not handed over';

/**
 * The second line of defence: replays leave these deliveries out (lib/bus/deliveries/operations/replay.ts). One that was
 * replayed all the same, by a release that did not know of it or before the option was set, is dead-lettered at once.
 */
function refusing(handler: Handler): Handler {
  return (given, context) => {
    const { deliveries } = 'deliveries' in context ? context : { deliveries: [context] };
    // A replayed delivery comes alone (lib/bus/relay/batch.ts).
    if (deliveries.some(({ replayed }) => replayed)) throw new NotDelivered('replay_refused', REFUSED);
    return handler(given, context);
  };
}

const FLAGS: ReadonlySet<string> = new Set(['batch', 'transactional', 'sharesCommits']);

const OPTIONS = [
  'timeoutMs',
  'maxAttempts',
  'afterDeadLetter',
  'outage',
  'onReplay',
  'rate',
  'concurrency',
  ...FLAGS,
];

/** @throws TypeError for an unknown option, which only JavaScript or a cast lets through */
function requireKnown(name: string, options: object): void {
  for (const option of Object.keys(options)) {
    if (OPTIONS.includes(option)) continue;
    const meant = nearest(option, OPTIONS);
    const advice = meant === null ? `the options are ${OPTIONS.join(', ')}` : `did you mean ${meant}?`;
    throw new TypeError(`${name}: unknown option ${option}: ${advice}`);
  }
}

/** @throws TypeError for an option with another value, which JavaScript or a cast let through */
function requireOneOf(name: string, option: string, value: unknown, values: readonly string[]): void {
  if (values.some((one) => one === value)) return;
  const expected = values.map((one) => `'${one}'`).join(' or ');
  throw new TypeError(`${name}: expected ${option}: ${expected}, not ${inspect(value)}`);
}

/** Lists the topics of a component in the catalog. */
export function topicsOf(component: string): string[] {
  return topics()
    .filter(([, { subscribers }]) => subscribers.some((name) => name === component))
    .map(([topic]) => topic);
}
