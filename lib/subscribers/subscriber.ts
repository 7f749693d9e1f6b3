import { topics } from '../catalog/catalog.ts';
import type { Payload, Subscriber, TopicName, TopicsOf } from '../catalog/catalog.ts';
import type { Transaction } from '../db/connect.ts';
import { LONGEST_TIME_LIMIT_MS } from '../lifetime.ts';
import { SECOND } from '../time.ts';

/** An event as a handler is given it. Shared with the topic's other subscribers, hence frozen. */
export interface BusEvent<Name extends TopicName = TopicName> {
  /** UUIDv7; the same at every attempt and replay, so that a handler can recognise what it has done. */
  readonly id: string;
  readonly topic: Name;
  readonly payload: Payload<Name>;
  /** The schema version that the payload was written under. */
  readonly version: number;
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
}

/** What a handler may know of the attempt that it is part of. */
export interface DeliveryContext {
  readonly deliveryId: string;
  /** Counted from 1; from 1 again after a replay. */
  readonly attempt: number;
  /** When this attempt began, by the database's clock (the one that `createdAt` is from). */
  readonly attemptedAt: Date;
  /** Whether an operator put this delivery back. Later events of the lane may then have been delivered before. */
  readonly replayed: boolean;
  /** Aborts when the time limit is reached; what the handler does after that is not waited for. */
  readonly signal: AbortSignal;
}

export interface TransactionalContext extends DeliveryContext {
  /** Commits together with the record that this delivery was delivered, or not at all. */
  readonly tx: Transaction;
}

/** What a handler of batches may know of the attempts that it is part of. */
export interface BatchContext extends Pick<DeliveryContext, 'attemptedAt' | 'signal'> {
  /** Of the events, in their order. */
  readonly deliveries: readonly Pick<DeliveryContext, 'deliveryId' | 'attempt' | 'replayed'>[];
}

export interface TransactionalBatchContext extends BatchContext {
  /** Commits together with the record that those which the handler took were delivered, or not at all. */
  readonly tx: Transaction;
}

/** How many of the events, from the first, a handler of batches took; nothing for all. */
type Taken = number | undefined | void;

export interface SubscriberOptions {
  /** Time limit of one attempt in milliseconds; 10 seconds by default, a minute at most. */
  readonly timeoutMs?: number;
  /** The failed attempt that dead-letters a delivery, 1 to 6; 5 by default. */
  readonly maxAttempts?: number;
}

type Handlers<Name extends Subscriber, Context> = {
  readonly [T in TopicsOf<Name>]?: (event: BusEvent<T>, context: Context) => unknown;
};

type BatchHandlers<Name extends Subscriber, Context> = {
  readonly [T in TopicsOf<Name>]?: (
    events: readonly BusEvent<T>[],
    context: Context,
  ) => Taken | PromiseLike<Taken>;
};

interface SharesCommits {
  /**
   * False for a handler that also acts elsewhere, sends a mail for instance: a neighbour's failure would have it act
   * again. True by default.
   */
  readonly sharesCommits?: boolean;
}

/** A component with what it does about the topics that it is listed for in the catalog. */
export interface AttachedSubscriber {
  readonly name: string;
  readonly handlers: ReadonlyMap<string, Handler>;
  readonly transactional: boolean;
  /** Whether consecutive deliveries are handled in one transaction. */
  readonly sharesCommits: boolean;
  /** Null: handlers take events one by one. */
  readonly batch: BatchLimits | null;
  readonly timeoutMs: number;
  readonly maxAttempts: number;
}

/** What bounds a batch besides the number of its events. It has one event at least. */
export interface BatchLimits {
  readonly bytesOf: (event: BusEvent) => number;
  readonly maxBytes: number;
}

/**
 * A handler once its topic is no longer known to the compiler. Only the relay calls it, with an event of that topic or
 * with a batch of them, and with `tx` if it is transactional; written as a method because those may take more than their
 * type says.
 */
export type Handler = {
  handle(
    given: BusEvent | readonly BusEvent[],
    context: (DeliveryContext | BatchContext) & { tx?: Transaction },
  ): unknown;
}['handle'];

/** One that takes events one by one. */
type EventHandler = {
  handle(event: BusEvent, context: DeliveryContext & { tx?: Transaction }): unknown;
}['handle'];

type BatchHandler = {
  handle(events: readonly BusEvent[], context: BatchContext & { tx?: Transaction }): unknown;
}['handle'];

/** What stays in the process has no size. */
const IN_PROCESS: BatchLimits = { bytesOf: () => 0, maxBytes: 0 };

/**
 * Attaches a component to topics that the catalog lists it for.
 *
 * A handler that returns has delivered; one that throws is tried again (see `PermanentError` and `RetryAfter`).
 *
 * @param name the component's name in the catalog.
 * @param handlers by topic. A topic that is left out is unattached: its deliveries wait.
 * @param options with `transactional: true` each handler gets `context.tx`, and its work has its effect exactly once.
 *   With `batch: true` it gets an array of events, in order, and returns how many of them, from the first, it took;
 *   nothing means all, a throw none. The first that it did not take has failed; those behind it are handed over again.
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
  handlers: Readonly<Record<string, Handler | undefined>>,
  { batch = false, ...options }: AnyOptions & { readonly batch?: boolean } = {},
): AttachedSubscriber {
  return attached(name, handlers, options, batch ? IN_PROCESS : null);
}

interface AnyOptions extends SubscriberOptions, SharesCommits {
  readonly transactional?: boolean;
}

/** Attaches a component whose name and topics only the running program knows. @throws TypeError as `subscriber` */
export function attach(
  name: string,
  handlers: Readonly<Record<string, EventHandler | undefined>>,
  options: AnyOptions = {},
): AttachedSubscriber {
  return attached(name, handlers, options, null);
}

/** The same, with handlers of batches. @param limits none by default but the number of events. */
export function attachBatches(
  name: string,
  handlers: Readonly<Record<string, BatchHandler | undefined>>,
  options: AnyOptions = {},
  limits: BatchLimits = IN_PROCESS,
): AttachedSubscriber {
  return attached(name, handlers, options, limits);
}

function attached(
  name: string,
  handlers: Readonly<Record<string, Handler | undefined>>,
  options: AnyOptions,
  batch: BatchLimits | null,
): AttachedSubscriber {
  const { timeoutMs = 10 * SECOND, maxAttempts = 5, transactional = false, sharesCommits = true } = options;
  if (!(timeoutMs >= 1 && timeoutMs <= LONGEST_TIME_LIMIT_MS)) {
    throw new TypeError(
      `${name}: a timeoutMs of ${timeoutMs} does not fit into the life of a function: write 1 to ${LONGEST_TIME_LIMIT_MS} milliseconds`,
    );
  }
  if (!Number.isInteger(maxAttempts) || maxAttempts < 1 || maxAttempts > 6) {
    throw new TypeError(`${name}: write a maxAttempts of 1 to 6`);
  }
  const byTopic = new Map<string, Handler>();
  for (const [topic, handler] of Object.entries(handlers)) {
    if (!topicsOf(name).includes(topic)) {
      throw new TypeError(
        `${name} is no subscriber of ${topic}: list it in lib/catalog, or leave the handler out`,
      );
    }
    if (typeof handler !== 'function') throw new TypeError(`${name}: write a function for ${topic}`);
    byTopic.set(topic, handler);
  }
  return { name, handlers: byTopic, transactional, sharesCommits, batch, timeoutMs, maxAttempts };
}

/** The topics that the catalog lists a component for. */
export function topicsOf(component: string): string[] {
  return topics()
    .filter(([, { subscribers }]) => subscribers.some((name) => name === component))
    .map(([topic]) => topic);
}
