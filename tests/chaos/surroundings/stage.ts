import { appendFileSync, closeSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import type pg from 'pg';

import type { Database } from '../../../lib/platform/db/connect.ts';
import { SECOND, sleep } from '../../../lib/platform/time.ts';
import { randomFrom } from '../../support/random.ts';
import { AWAITING_PLACE, RECORDS } from '../../support/records.ts';
import type { Build } from '../build.ts';
import type { Arena } from '../campaign.ts';
import { violations } from '../checker.ts';
import { Clock, NO_PAUSES } from '../clock.ts';
import type { Emit, History, LogEntry, SubscriberLimits } from '../history.ts';
import { opened, produce } from '../produce.ts';
import type { Produced } from '../produce.ts';
import type { Rule } from '../promises/promises.ts';
import { readHistory } from '../read-history.ts';
import { deliveryIdOf, grouped, Reading } from '../reading.ts';
import { RelayProcess } from '../relays.ts';
import type { Plan, PlannedEmit, PlannedTransaction, Schedule } from '../schedule.ts';
import { inShort } from '../words.ts';

const LIMITS = { timeoutMs: 10 * SECOND, maxAttempts: 5 };

/** One of each kind, all of them subscribers of `payment.captured`, and one more of another topic. */
const SUBSCRIBERS: readonly SubscriberLimits[] = [
  { name: 'bookings', transactional: false, batch: false, ...LIMITS },
  { name: 'ledger', transactional: true, batch: false, ...LIMITS },
  { name: 'accounting', transactional: false, batch: true, ...LIMITS },
  { name: 'notifications', transactional: true, batch: true, ...LIMITS },
  { name: 'audit', transactional: false, batch: false, ...LIMITS },
];

/** The kinds of subscribers are subscribed to the first. */
type TrafficTopic = 'payment.captured' | 'payment.failed' | 'payment.intent.created';

export interface Traffic {
  /** Side by side; each transaction of a producer begins when the one before it has ended. */
  readonly producers: number;
  /** Of each producer. */
  readonly transactions: number;
  readonly topics?: readonly TrafficTopic[];
  /** How many ordering keys there are, besides none. */
  readonly keys?: number;
  readonly longestWaitMs?: number;
  /** How long transactions stay open after they have emitted; without a shortest time, every second one. */
  readonly holdMs?: readonly [shortest: number, longest: number];
  /** How long handlers take. */
  readonly handlersMs?: readonly [shortest: number, longest: number];
}

/** Plans what producers do, the same for the same seed. */
export function traffic(of: Traffic, seed = 1): PlannedTransaction[][] {
  const { topics = ['payment.captured', 'payment.failed'], keys = 3 } = of;
  const { longestWaitMs = 40, holdMs = [0, 250], handlersMs = [0, 0] } = of;
  const random = randomFrom(seed);
  const within = (from: number, to: number) => Math.round(from + random() * (to - from));
  let count = 0;
  const emitOne = (): PlannedEmit => {
    count += 1;
    const act = () => ({ act: 'returns after' as const, ms: within(...handlersMs) });
    const plan: Plan =
      handlersMs[1] === 0 ? {} : Object.fromEntries(SUBSCRIBERS.map(({ name }) => [name, [act(), act()]]));
    const topic = topics[within(0, topics.length - 1)]!;
    return { tag: `event ${seed}.${count}`, topic, key: within(0, keys), thenMs: within(0, 10), plan };
  };
  return Array.from({ length: of.producers }, () =>
    Array.from({ length: of.transactions }, () => ({
      release: 'present' as const,
      waitMs: within(0, longestWaitMs),
      emits: Array.from({ length: within(1, 2) }, emitOne),
      holdMs: holdMs[0] > 0 || random() < 0.5 ? within(...holdMs) : 0,
      end: random() < 0.1 ? ('rollback' as const) : ('commit' as const),
    })),
  );
}

export interface StageOptions {
  readonly traffic?: readonly (readonly PlannedTransaction[])[];
  readonly pauses?: Schedule['pauses'];
  /** Whether each version of each row is kept; without it `broken` can say less. True when left out. */
  readonly isRecorded?: boolean;
}

let stages = 0;

/** A database, relay processes and producers in some surrounding. Time passes as it does, unless a surrounding moves it. */
export class Stage {
  readonly arena: Arena;
  readonly build: Build;
  readonly database: string;
  readonly clock: Clock;
  readonly relays: RelayProcess[] = [];
  readonly #folder: string;
  readonly #traffic: readonly (readonly PlannedTransaction[])[];
  readonly #produced: Produced = { emits: [], cancels: [] };
  readonly #isRecorded: boolean;
  /** What the relays write. */
  readonly #output: number;
  #control: pg.Client | null = null;

  static async open(arena: Arena, build: Build, options: StageOptions = {}): Promise<Stage> {
    const stage = new Stage(arena, build, options);
    const { database } = stage;
    await arena.cluster.createDatabase(database, join(stage.#folder, 'database-clock'), build.statements);
    if (!stage.#isRecorded)
      for (const table of ['log', 'journal', 'exceptions', 'outages'])
        await stage.sql(`alter table public.${table} disable trigger versions`);
    return stage;
  }

  private constructor(arena: Arena, build: Build, options: StageOptions) {
    stages += 1;
    this.arena = arena;
    this.build = build;
    this.database = `surrounding_${process.pid}_${stages}`;
    this.#folder = join(arena.folder, this.database);
    mkdirSync(this.#folder, { mode: 0o755 });
    // Relays have a clock of their own, as processes on other machines do: only the database's is moved.
    void new Clock(join(this.#folder, 'clock'), { relays: NO_PAUSES, producers: NO_PAUSES });
    this.clock = new Clock(
      join(this.#folder, 'database-clock'),
      options.pauses ?? { relays: NO_PAUSES, producers: NO_PAUSES },
    );
    writeFileSync(join(this.#folder, 'log'), '');
    this.#output = openSync(join(this.#folder, 'output'), 'a');
    this.#traffic = options.traffic ?? [];
    this.#isRecorded = options.isRecorded ?? true;
  }

  /** @param port of a proxy or a pooler; the server's when left out. */
  url(by: string, { port = this.arena.cluster.port, options = '', role = 'postgres' } = {}): string {
    const more = options === '' ? '' : `&options=${encodeURIComponent(options)}`;
    return `postgres://${role}@127.0.0.1:${port}/${this.database}?application_name=${by}${more}`;
  }

  /** Starts a relay process. @param urlOf from the name of the relay. @param isLasting whether it is one of `npm run relay`. */
  async relay(urlOf = (name: string) => this.url(name), isLasting = false): Promise<RelayProcess> {
    const relay = new RelayProcess(this.build.relayProcess, 'present', this.#output);
    this.relays.push(relay);
    const planned = this.#traffic.flat().flatMap(({ emits }) => emits);
    const topics = this.build.bus.topics().map(([topic, { subscribers }]) => [topic, subscribers] as const);
    await relay.run({
      url: urlOf(relay.name),
      folder: this.#folder,
      subscribers: SUBSCRIBERS,
      topics: Object.fromEntries(topics.filter(([topic]) => topic.startsWith('payment.'))),
      plans: Object.fromEntries(planned.map(({ tag, plan }) => [tag, plan])),
      roundMs: 50 * SECOND,
      isLasting,
    });
    return relay;
  }

  /** Plays producers side by side. @param producers all of them when left out. */
  async produce(url = this.url('producer'), producers = this.#traffic): Promise<void> {
    const builds = { present: this.build, next: this.build };
    const producing = { url, builds, now: () => this.clock.now() };
    await Promise.all(producers.map((transactions) => produce(transactions, producing, this.#produced)));
  }

  /** An event that a surrounding emitted by itself, so that the checker knows of it. */
  emitted(emit: Omit<Emit, 'release'>): void {
    this.#produced.emits.push({ ...emit, release: 'present' });
  }

  note(fault: string): void {
    const entry = { k: 'fault', t: this.clock.now(), real: Date.now(), relay: '', fault };
    appendFileSync(join(this.#folder, 'log'), `${JSON.stringify(entry)}\n`);
  }

  /** What the relays have written, which is their log. */
  output(): string {
    return readFileSync(join(this.#folder, 'output'), 'utf8');
  }

  /** Runs a statement past all that surrounds the bus, on one connection that no limit holds for. */
  async sql<Row extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<Row[]> {
    if (!this.#control) {
      this.#control = await opened(this.arena.cluster.url(this.database));
      this.#control.once('end', () => (this.#control = null));
      await this.#control.query(
        "set statement_timeout = 0; set default_transaction_isolation = 'read committed'",
      );
    }
    return (await this.#control.query<Row>(text, values)).rows;
  }

  /** Waits until nothing is left to do, or the time is over. @returns how many deliveries and markers are still open. */
  async rest(withinMs: number, topics = 'true'): Promise<number> {
    const until = performance.now() + withinMs;
    for (;;) {
      const [found] = await this.sql<{ open: number }>(
        `select ((select count(*) from ${AWAITING_PLACE} where ${topics})
           + (select count(*) from ${RECORDS} where state in ('pending', 'failing') and ${topics}))::int as open`,
      );
      if (found!.open === 0 || performance.now() > until) return found!.open;
      await sleep(100);
    }
  }

  /** Waits until so many deliveries have been delivered. */
  async delivered(count: number): Promise<void> {
    for (;;) {
      const [found] = await this.sql<{ done: number }>(
        `select count(*)::int as done from ${RECORDS} where state = 'delivered'`,
      );
      if (found!.done >= count) return;
      await sleep(50);
    }
  }

  /** Runs something as the console does: on connections of its own, which no surrounding makes worse. */
  async asOperator<Result>(act: (db: Database) => Promise<Result>): Promise<Result> {
    const { db, close } = await this.build.bus.connect(this.url('operator'));
    try {
      return await act(db);
    } finally {
      await close();
    }
  }

  /** The incidents that are not closed, as the cron's watch finds them. */
  async incidents(): Promise<{ kind: string; topic: string; subscriber: string; message: string }[]> {
    await this.asOperator((db) => this.build.bus.watchIncidents(db));
    return await this.sql('select kind, topic, subscriber, message from incidents where closed_at is null');
  }

  /** The first error that a relay met; null when it met none in this time. */
  async relayError(withinMs: number): Promise<string | null> {
    for (const until = performance.now() + withinMs; performance.now() < until; await sleep(50)) {
      const lines = readFileSync(join(this.#folder, 'log'), 'utf8').split('\n').filter(Boolean);
      const error = lines.map((line) => JSON.parse(line) as LogEntry).find(({ k }) => k === 'error');
      if (error?.k === 'error') return error.message;
    }
    return null;
  }

  async history(): Promise<History> {
    await this.sql('select 1');
    const builds = { present: this.build, next: this.build };
    return await readHistory(this.#control!, this.#folder, this.#produced, SUBSCRIBERS, builds);
  }

  /**
   * What did not hold of the promises, and every attempt that was charged although its handler had returned.
   *
   * @param rules those that can be judged in the surrounding; all of them when left out.
   * @param except the id of an event that is none.
   */
  async broken({ rules, except }: { rules?: readonly Rule[]; except?: string } = {}): Promise<string[]> {
    const history = await this.history();
    const judged = violations(history).filter(
      ({ rule, about }) => (rules?.includes(rule) ?? true) && about.eventId !== except,
    );
    const found = judged.map((violation) => inShort(history, violation));
    const recorded = [...found, ...charged(history, except), ...outOfPlace(history)];
    if (this.#isRecorded) return recorded;
    return [...history.contradictions, ...(await this.#charges()), ...outOfPlace(history)];
  }

  async #charges(): Promise<string[]> {
    const [found] = await this.sql<{ count: number }>(
      `select count(*)::int from ${RECORDS} where state <> 'delivered' or attempts > 1 or attempt_log is not null`,
    );
    return found!.count === 0 ? [] : [`${found!.count} deliveries were not delivered at their first attempt`];
  }

  async close(): Promise<void> {
    for (const relay of this.relays) relay.signal('SIGKILL');
    await this.#control?.end().catch(() => undefined);
    await this.arena.cluster.dropDatabase(this.database);
    closeSync(this.#output);
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** No handler fails by itself in any surrounding, so what is charged for more than its own throws is a mistake. */
function charged(history: History, except?: string): string[] {
  const { deliveries, calls } = new Reading(history);
  const threw = grouped(
    calls.filter(({ end }) => end !== null && end.end !== 'ok'),
    ({ start }) => deliveryIdOf(start),
  );
  return [...deliveries.values()].flatMap(({ id, eventId, versions }) => {
    const failures = versions.at(-1)!.log.filter(({ outcome }) => outcome === 'failed');
    const kinds = failures.map(({ kind }) => kind).join(', ');
    const throws = threw.get(id)?.length ?? 0;
    return eventId === except || failures.length <= throws
      ? []
      : [`${id} was charged ${failures.length} attempts (${kinds}), and its handler threw ${throws} times`];
  });
}

/** First calls of a key's handlers go by position, whatever the clock says. */
function outOfPlace(history: History): string[] {
  const { deliveries, calls } = new Reading(history);
  const latest = new Map<string, number>();
  const called = new Set<string>();
  return calls.flatMap(({ start }) => {
    const delivery = deliveries.get(deliveryIdOf(start));
    if (!delivery || called.has(delivery.id)) return [];
    const { id, strand, position } = delivery;
    called.add(id);
    const before = latest.get(strand) ?? 0;
    latest.set(strand, Math.max(before, position));
    return position > before
      ? []
      : [`${start.subscriber} was handed ${start.tag} at ${position} after ${before}`];
  });
}
