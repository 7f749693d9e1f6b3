// The types of `await using`, for a component whose compiler does not know them by itself.
/// <reference lib="esnext.disposable" preserve="true" />
import { catalog, isTopicName, subscriberNames } from '../../bus/catalog/catalog.ts';
import type { PayloadInput, Subscriber, TopicName, TopicsOf } from '../../bus/catalog/catalog.ts';
import { dismiss } from '../../bus/deliveries/operations/dismiss.ts';
import type { ReplayRequest } from '../../bus/deliveries/operations/replay-matching.ts';
import { replay } from '../../bus/deliveries/operations/replay.ts';
import type { Replay } from '../../bus/deliveries/operations/replay.ts';
import { emit, UnknownTopic } from '../../bus/outbox/emit.ts';
import type { EmitOptions } from '../../bus/outbox/emit.ts';
import { attach, topicsOf } from '../../bus/subscribers/subscriber.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import type { Database } from '../../platform/db/connect.ts';
import { SECOND } from '../../platform/time.ts';
import { TestClock, instant } from './clock.ts';
import { borrowDatabase, giveBack } from './database.ts';
import type { TestDatabase } from './database.ts';
import { BusStuck, relayAll } from './drain.ts';
import { readEvents } from './events.ts';
import type { AnyEvent } from './events.ts';
import { requireKnown } from './known.ts';
import { deadLetterIds, nextRetryAt } from './outcomes.ts';
import type { Received } from './received.ts';
import { Recorder } from './recorder.ts';

export { PermanentError, RetryAfter } from '../../bus/subscribers/outcome.ts';
export { subscriber } from '../../bus/subscribers/subscriber.ts';
export { elsewhere } from './elsewhere.ts';
export type { Received };

export interface TestBusOptions {
  /** Where the clock stands at the beginning; by default at the real time. */
  readonly now?: Date | string;
  /** How long a handler may run in a test, in real milliseconds; 4000 by default, less than a test runner's own limit. */
  readonly stuckAfterMs?: number;
}

/** What the given subscribers were handed in one drain. */
export interface Drained {
  readonly delivered: number;
  /** Failed attempts that will be retried. */
  readonly failed: number;
  /** Handlers that asked to wait with `RetryAfter`. */
  readonly waited: number;
  readonly deadLettered: number;
  /** The errors of the last three, in order. */
  readonly errors: readonly Error[];
  /** The earliest retry: `bus.clock.advanceTo(nextRetryAt)` makes it due. Null when none waits. */
  readonly nextRetryAt: Date | null;
}

/** A payload's fields, of which the others come from the catalog's example; `undefined` leaves one out. */
type Fields<Payload> = Payload extends unknown
  ? { readonly [Field in keyof Payload]?: Payload[Field] | undefined }
  : never;

/**
 * Opens a bus on an embedded database, which the tests of a process share one after the other: the first takes seconds,
 * the others milliseconds. Its clock stands still until the test moves it.
 *
 * @param subscribers whose handlers run. All other subscribers of the catalog are recorded, not run; topics for which a
 *   given subscriber has no handler wait, as they do in a deployment.
 * @throws TypeError for what is not a list of subscribers, and for a subscription that is given twice.
 */
export async function testBus(
  subscribers: readonly AttachedSubscriber[],
  { now = new Date(), stuckAfterMs = 4 * SECOND }: TestBusOptions = {},
): Promise<TestBus> {
  requireSubscribers(subscribers);
  const at = instant(now);
  const database = await borrowDatabase();
  await database.setClock(at);
  return new TestBus(database, subscribers, at, stuckAfterMs);
}

/** A bus of one test. */
export class TestBus {
  readonly clock: TestClock;
  readonly #database: TestDatabase;
  readonly #recorder = new Recorder();
  readonly #given: ReadonlySet<string>;
  readonly #subscribers: readonly AttachedSubscriber[];
  readonly #stuckAfterMs: number;
  #state: 'open' | 'stuck' | 'closed' = 'open';
  #draining: Promise<Drained> | null = null;
  /** Resolves when the database has the clock's time. */
  #clockIsSet = Promise.resolve();

  /** @internal */
  constructor(database: TestDatabase, given: readonly AttachedSubscriber[], now: Date, stuckAfterMs: number) {
    this.#database = database;
    this.#given = new Set(given.map(({ name }) => name));
    const others = subscriberNames().filter((name) => !this.#given.has(name));
    this.#subscribers = [...given, ...others.map(recordedOnly)].map((each) => this.#recorder.of(each));
    this.#stuckAfterMs = stuckAfterMs;
    this.clock = new TestClock(now, (to) => {
      this.#requireOpen('move its clock');
      // Statements run in the order in which they are sent, so the next one reads the new time.
      this.#clockIsSet = database.setClock(to);
      this.#clockIsSet.catch(() => undefined);
    });
  }

  /** The database: for what a handler has written, or must find, and to emit as a producer does. */
  get db(): Database {
    this.#requireOpen('use its database');
    return this.#database.db;
  }

  /**
   * Emits an event.
   *
   * @param fields the fields that matter to the test; the catalog's example has the others, top level only.
   * @returns the event's id.
   * @throws UnknownTopic, or InvalidPayload for the payload that the fields and the example make.
   */
  async emit<Name extends TopicName>(
    topic: Name,
    fields?: Fields<PayloadInput<Name>>,
    options?: EmitOptions,
  ): Promise<{ id: string }> {
    this.#requireOpen('emit');
    if (!isTopicName(topic)) throw new UnknownTopic(topic);
    const payload = Object.entries({ ...catalog[topic].example, ...fields }).filter(
      ([, value]) => value !== undefined,
    );
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- emit checks it
    const given = Object.fromEntries(payload) as PayloadInput<Name>;
    return await this.#database.db.transaction(async (tx) => await emit(tx, topic, given, options));
  }

  /**
   * Delivers until nothing is due at the clock's time, with the events that handlers emit meanwhile.
   *
   * @throws BusStuck when a handler does not end; Error when the bus is closed or another drain is under way.
   */
  async drain(): Promise<Drained> {
    this.#requireOpen('drain');
    if (this.#draining) {
      throw new Error(
        'A drain is under way: await it before the next one. A handler cannot drain its own bus.',
      );
    }
    this.#draining = this.#drain();
    try {
      return await this.#draining;
    } catch (error) {
      if (error instanceof BusStuck) this.#state = 'stuck';
      throw error;
    } finally {
      this.#draining = null;
    }
  }

  async #drain(): Promise<Drained> {
    const { db } = this.#database;
    const [now, recorder] = [this.clock.now(), this.#recorder];
    await this.#clockIsSet;
    const report = await relayAll({
      db,
      subscribers: this.#subscribers,
      recorder,
      now,
      stuckAfterMs: this.#stuckAfterMs,
    });
    const received = (await recorder.settle(db)).filter(({ subscriber }) => this.#given.has(subscriber));
    const next = await nextRetryAt(db);
    return {
      delivered: received.filter(({ outcome }) => outcome === 'delivered').length,
      // The other subscribers are recorded, and so always deliver.
      failed: report.failed,
      waited: report.waited,
      deadLettered: report.deadLettered,
      errors: received.flatMap(({ outcome, error }) => (outcome === 'not_counted' ? [] : (error ?? []))),
      nextRetryAt: next === null ? null : new Date(next),
    };
  }

  /**
   * Lists what a subscriber was handed in all drains, in order, also one that was not given.
   *
   * @param topic of these events only.
   * @throws TypeError for a subscriber that the catalog does not have.
   */
  received<Name extends Subscriber, Topic extends TopicsOf<Name> = TopicsOf<Name>>(
    subscriber: Name,
    topic?: Topic,
  ): Received<Topic>[] {
    requireKnown('subscriber', subscriber, subscriberNames());
    if (topic !== undefined) requireKnown('topic', topic, topicsOf(subscriber), ` of ${subscriber}`);
    const received = this.#recorder.received.filter(
      (each) => each.subscriber === subscriber && (topic === undefined || each.event.topic === topic),
    );
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a subscriber is handed only its topics
    return received as Received<Topic>[];
  }

  /** Lists the last attempts of the deliveries that are dead letters now, in the order of their deaths. */
  async deadLetters(): Promise<Received[]> {
    const ids = await deadLetterIds(this.db);
    return ids.flatMap((id) => this.#recorder.received.findLast(({ deliveryId }) => deliveryId === id) ?? []);
  }

  /** Lists the events of a topic, or all, with those that handlers emitted, in the order of their creation. */
  async events<Name extends TopicName = TopicName>(topic?: Name): Promise<AnyEvent<Name>[]> {
    if (topic !== undefined && !isTopicName(topic)) throw new UnknownTopic(topic);
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the query chose the topic
    return (await readEvents(this.db, topic ?? null)) as AnyEvent<Name>[];
  }

  /**
   * Replays a topic's dead letters, or with `include: 'all'` all its deliveries, as an operator does; the next drain hands
   * them over.
   *
   * @throws an error with the code `replay_refused` when nothing matches but deliveries of a subscriber with
   *   `onReplay: 'refuse'`; ZodError.
   */
  async replay(
    topic: TopicName,
    request: Pick<ReplayRequest, 'subscriber' | 'include' | 'limit'> = {},
  ): Promise<Pick<Replay, 'matched' | 'replayed'>> {
    const asked = { topic, since: '520w', ...request };
    const { matched, replayed } = await replay(this.db, asked, 'a test', undefined, this.#subscribers);
    return { matched, replayed };
  }

  /** Dismisses a topic's dead letters, as an operator does: a lane that they halt goes on. @returns how many. */
  async dismiss(topic: TopicName): Promise<number> {
    if (!isTopicName(topic)) throw new UnknownTopic(topic);
    const { db } = this;
    let total = 0;
    for (const subscriber of catalog[topic].subscribers) {
      const how = { action: 'dismiss', by: 'a test', reason: 'a test', until: Infinity } as const;
      total += (await dismiss(db, { topic, subscriber, kind: null }, how)).dismissed;
    }
    return total;
  }

  /** Ends the test's use of the database. Everything in it is gone. */
  async close(): Promise<void> {
    if (this.#state === 'closed') return;
    await this.#draining?.catch(() => undefined);
    const isInUse = this.#state === 'stuck' || this.#recorder.calls.some(({ hasEnded }) => !hasEnded);
    this.#state = 'closed';
    // A handler that is still running must not reach the next test's bus, so that one gets another database.
    if (!isInUse) await giveBack(this.#database);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #requireOpen(what: string): void {
    if (this.#state === 'closed') throw new Error(`The bus is closed: ${what} before close().`);
    if (this.#state === 'stuck') throw new Error(`The bus is stuck, see the error of its drain: close it.`);
  }
}

/** A subscriber whose events are recorded, and which does nothing with them. */
function recordedOnly(name: string): AttachedSubscriber {
  return attach(name, Object.fromEntries(topicsOf(name).map((topic) => [topic, () => undefined])));
}

/** @throws TypeError */
function requireSubscribers(subscribers: readonly AttachedSubscriber[]): void {
  if (!Array.isArray(subscribers) || !subscribers.every((each) => each?.handlers instanceof Map)) {
    throw new TypeError(
      "Expected a list of subscribers, for example testBus([subscriber('ledger', { … })]).",
    );
  }
  const seen = new Set<string>();
  for (const { name, handlers } of subscribers) {
    for (const topic of handlers.keys()) {
      const subscription = `${name} for ${topic}`;
      if (seen.has(subscription))
        throw new TypeError(`${subscription} is given twice: give each subscriber once.`);
      seen.add(subscription);
    }
  }
}
