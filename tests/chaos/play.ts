import { appendFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import type pg from 'pg';

import type { Database } from '../../lib/platform/db/connect.ts';
import { DAY, MINUTE, SECOND, sleep } from '../../lib/platform/time.ts';
import type { Build } from './build.ts';
import { Clock } from './clock.ts';
import type { Cluster } from './cluster.ts';
import { BACK, CRASHES, GONE, KILLED, KNOWING, STOPPED, WOKEN } from './history.ts';
import type { History, SubscriberLimits } from './history.ts';
import { opened, produce } from './produce.ts';
import type { Produced } from './produce.ts';
import type { Proxy } from './proxy.ts';
import { readHistory } from './read-history.ts';
import type { RelayPool, RelayProcess } from './relays.ts';
import { JOINING } from './releases.ts';
import type { Release } from './releases.ts';
import { SUBSCRIBERS, isInUse } from './schedule.ts';
import type { Fault, Schedule } from './schedule.ts';

/** What a run is played on. */
export interface World {
  readonly cluster: Cluster;
  readonly proxy: Proxy;
  readonly builds: Readonly<Record<Release, Build>>;
  readonly pools: Readonly<Record<Release, RelayPool>>;
  /** Holds a folder for each run. */
  readonly folder: string;
}

/** How long nothing may change, once nothing goes wrong any more, before what is open stays so. */
const PATIENCE_MS = 60 * SECOND;

/** How long a run may take to come to rest, be it on a machine that has other things to do. */
const LONGEST_REST_MS = 5 * MINUTE;

/** A relay that holds a lane and has not been heard of for so long hangs: the longest handler takes half of it. */
const UNHEARD_MS = 1 * SECOND;

/** So much later than the next retry, retries of a minute's worth fall due together. */
const BEYOND_MS = 45 * SECOND;

/** How often, and how far apart, the steps of paced replays are taken. */
const STEPS = 8;
const STEP_MS = 60;

let runs = 0;

/** Plays a schedule on a new database, lets the bus come to rest, and returns what happened. */
export async function play(world: World, schedule: Schedule): Promise<History> {
  runs += 1;
  const stage = new Stage(world, schedule, `chaos_${process.pid}_${runs}`);
  try {
    await stage.open();
    await stage.trouble();
    await stage.comeToRest();
    return await stage.history();
  } finally {
    await stage.close();
  }
}

class Stage {
  readonly #world: World;
  readonly #schedule: Schedule;
  readonly #name: string;
  readonly #folder: string;
  readonly #clock: Clock;
  readonly #relays: RelayProcess[] = [];
  /** Not to be taken again in this run: its calls are numbered from 1 each time. */
  readonly #rested: RelayProcess[] = [];
  readonly #produced: Produced = { emits: [], cancels: [] };
  readonly #subscribers: readonly SubscriberLimits[];
  #control: Promise<pg.Client> | null = null;
  #crash: Promise<void> | null = null;
  #isOver = false;
  #hasReplayedAtRest = false;

  constructor(world: World, schedule: Schedule, name: string) {
    this.#world = world;
    this.#schedule = schedule;
    this.#name = name;
    this.#folder = join(world.folder, name);
    mkdirSync(this.#folder, { mode: 0o755 });
    this.#subscribers = SUBSCRIBERS.map((one) => ({ ...one, ...schedule.limits?.[one.name] }));
    this.#clock = new Clock(join(this.#folder, 'clock'), schedule.pauses);
    writeFileSync(join(this.#folder, 'log'), '');
  }

  async open(): Promise<void> {
    const { cluster, builds } = this.#world;
    await cluster.createDatabase(this.#name, join(this.#folder, 'clock'), builds.present.statements);
    await Promise.all(this.#schedule.relays.map((release) => this.#addRelay(release)));
  }

  /** Producers, and all that goes wrong. */
  async trouble(): Promise<void> {
    const { producers, faults } = this.#schedule;
    const { builds } = this.#world;
    const producing = { url: this.#url('producer'), builds, now: () => this.#clock.now() };
    await Promise.all([
      ...producers.map((transactions) => produce(transactions, producing, this.#produced)),
      ...faults.map(async ({ atMs, what }) => {
        await sleep(atMs);
        await this.#strike(what);
      }),
    ]);
  }

  /** Ends all trouble, and moves the clock until nothing is open any more, or nothing will ever change. */
  async comeToRest(): Promise<void> {
    this.#world.proxy.heal();
    await this.#crash;
    this.#clock.steady();
    this.#note('all trouble is over');
    // What only one of the releases can read, or has a handler for, waits for it.
    const releases = new Set(this.#schedule.producers.flat().map(({ release }) => release));
    for (const release of releases) {
      if (!this.#relays.some((relay) => relay.release === release)) await this.#addRelay(release);
    }
    const giveUpAt = performance.now() + LONGEST_REST_MS;
    let heardAt = performance.now();
    let changedAt = heardAt;
    let changes = '';
    while (performance.now() < Math.min(giveUpAt, heardAt + PATIENCE_MS)) {
      const rest = await this.#look();
      if (rest.isQuiet) {
        if (!this.#hasReplayedAtRest) {
          this.#hasReplayedAtRest = true;
          // On a slow machine the others find little that has ended.
          await this.#replay({ fault: 'replay', topic: 'payment.captured', include: 'all', limit: 7 });
          continue;
        }
        return;
      }
      if (rest.changes !== changes) changedAt = heardAt = performance.now();
      changes = rest.changes;
      const isAtWork = rest.holders.some((holder) => this.#isAlive(holder));
      const isUnheard = performance.now() - changedAt > UNHEARD_MS;
      if (!rest.isDue && (!isAtWork || isUnheard)) {
        if (rest.backfills > 0 || (rest.nextInMs === null && rest.halts.length > 0)) {
          await this.#settleWhatWaits();
          if (rest.backfills > 0) this.#move(3 * SECOND);
          changedAt = performance.now();
          continue;
        }
        // All lanes sleep: what is open is forgotten.
        if (rest.nextInMs === null) return;
        this.#move(Math.max(0, rest.nextInMs) + BEYOND_MS);
        changedAt = performance.now();
      }
      await sleep(12);
    }
  }

  async history(): Promise<History> {
    await this.#dismiss();
    const { builds } = this.#world;
    const control = await this.#connectControl();
    return await readHistory(control, this.#folder, this.#produced, this.#subscribers, builds);
  }

  async close(): Promise<void> {
    await this.#crash;
    await this.#dismiss();
    this.#world.proxy.heal();
    this.#world.proxy.cut();
    await this.#control?.then((client) => client.end()).catch(() => undefined);
    await this.#world.cluster.dropDatabase(this.#name);
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** Lets the relays go, or has them killed. */
  async #dismiss(): Promise<void> {
    this.#isOver = true;
    const { pools } = this.#world;
    for (const relay of this.#rested.splice(0)) pools[relay.release].giveBack(relay);
    await Promise.all(
      this.#relays.splice(0).map(async (relay) => {
        if (await relay.rest(3 * SECOND)) pools[relay.release].giveBack(relay);
      }),
    );
  }

  /** Resolves when it has begun. */
  async #addRelay(release: Release): Promise<void> {
    const relay = this.#world.pools[release].take();
    this.#relays.push(relay);
    relay.whenGone(() => {
      if (this.#isOver || !this.#relays.includes(relay)) return;
      this.#note(GONE, relay.name);
      this.#relays.splice(this.#relays.indexOf(relay), 1);
      void this.#addRelay(release);
    });
    const planned = this.#schedule.producers.flat().flatMap(({ emits }) => emits);
    await relay.run({
      url: this.#url(relay.name),
      folder: this.#folder,
      subscribers: this.#subscribers,
      topics: Object.fromEntries(
        this.#world.builds[release].bus
          .topics()
          .filter(([topic]) => isInUse(topic))
          .map(([topic, { subscribers }]) => [topic, subscribers]),
      ),
      plans: Object.fromEntries(planned.map(({ tag, plan }) => [tag, plan])),
    });
  }

  #isAlive(name: string): boolean {
    return this.#relays.some((relay) => relay.name === name && relay.isAlive);
  }

  /** Through the proxy. @param by as the instruments note it. */
  #url(by: string): string {
    return `postgres://postgres@127.0.0.1:${this.#world.proxy.port}/${this.#name}?application_name=${by}`;
  }

  async #strike(fault: Fault): Promise<void> {
    const { proxy } = this.#world;
    switch (fault.fault) {
      case 'move the clock':
        this.#move(fault.ms);
        break;
      case 'kill a relay':
        this.#signal(this.#pick(fault.pick), 'SIGKILL', KILLED);
        break;
      case 'roll out':
        await this.#rollOut(this.#pick(fault.pick), fault.release);
        break;
      case 'stop a relay': {
        const relay = this.#pick(fault.pick);
        this.#signal(relay, 'SIGSTOP', STOPPED);
        await sleep(fault.forMs / 2);
        this.#move(fault.moveMs);
        await sleep(fault.forMs / 2);
        this.#signal(relay, 'SIGCONT', WOKEN);
        break;
      }
      case 'crash the database':
        await this.#crashDatabase();
        break;
      case 'crash the database at a turn':
        this.#note(`the database is going to crash once a turn has placed and claimed ${fault.claimed}`);
        proxy.expect(ANSWERS[fault.claimed], () => {
          void this.#crashDatabase();
        });
        break;
      case 'cut a connection':
        this.#note('a connection is cut');
        proxy.cut(fault.pick);
        break;
      case 'cut all connections':
        this.#note('all connections are cut');
        proxy.cut();
        break;
      case 'lose':
        this.#note(`the network is going to lose ${fault.trap}`);
        proxy.set(fault.trap);
        break;
      case 'stall the network':
        this.#note(`the network stalls for ${fault.ms} ms`);
        proxy.stall(fault.ms);
        break;
      case 'replay':
        await this.#replay(fault);
        break;
      case 'backfill':
        await this.#backfill(fault);
    }
  }

  /** A relay that has just died is replaced at once, so that there is one. */
  #pick(pick: number): RelayProcess {
    return this.#relays[Math.floor(pick * this.#relays.length)]!;
  }

  #signal(relay: RelayProcess, signal: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT', fault: string): void {
    this.#note(fault, relay.name);
    relay.signal(signal);
  }

  async #rollOut(relay: RelayProcess, release: Release): Promise<void> {
    this.#note(`rests, and a relay of the ${release} release takes its place`, relay.name);
    this.#relays.splice(this.#relays.indexOf(relay), 1);
    await this.#addRelay(release);
    if (await relay.rest(3 * SECOND)) this.#rested.push(relay);
  }

  async #crashDatabase(): Promise<void> {
    this.#note(CRASHES);
    this.#crash ??= this.#world.cluster.crash().finally(() => (this.#crash = null));
    await this.#crash;
    this.#note(BACK);
  }

  async #replay({ topic, include, limit }: Extract<Fault, { fault: 'replay' }>): Promise<void> {
    const { connect, replay, advanceReplays } = this.#world.builds.present.bus;
    const [one, other] = await Promise.all([1, 2].map(() => connect(this.#url('operator'))));
    const { db } = one!;
    // By the limit, which is as random as any other number would be.
    const isKnowing = limit % 4 !== 0;
    const isPaced = limit % 3 === 0;
    const attached = isKnowing ? this.#attached() : [];
    try {
      const request = {
        topic,
        since: '365d',
        include: limit % 2 === 0 ? ('all' as const) : include,
        limit,
        ...(isPaced && { perMinute: 300 }),
      };
      const by = isKnowing ? KNOWING : 'an operator of another release';
      const { matched } = await replay(db, request, by, this.#operatorsNow(), attached);
      this.#note(`${by} replays ${matched} deliveries of ${topic}${isPaced ? ', little by little' : ''}`);
    } catch (error) {
      this.#note(`an operator's replay of ${topic} fails: ${(error as Error).message}`);
    }
    // Two processes take the steps, also those of other paced replays, until the clock has stood still for a while.
    const step = async (of: typeof db) => {
      for (let looks = 0; isPaced && looks < STEPS; looks += 1) {
        await advanceReplays(of, { attached, until: Date.now() + SECOND });
        await sleep(STEP_MS);
      }
    };
    for (const taken of await Promise.allSettled([step(db), step(other!.db)]))
      if (taken.status === 'rejected') this.#note(`a step of a replay fails: ${String(taken.reason)}`);
    await Promise.allSettled([one!.close(), other!.close()]);
  }

  /** The subscribers as an operator's process knows them. */
  #attached() {
    const { attach, topics } = this.#world.builds.present.bus;
    return SUBSCRIBERS.map(({ name, onReplay }) => {
      const own = topics().filter(([, { subscribers }]) => subscribers.some((other) => other === name));
      return attach(name, Object.fromEntries(own.map(([topic]) => [topic, () => undefined])), {
        onReplay: onReplay ?? 'run',
      });
    });
  }

  async #backfill({ perMinute }: Extract<Fault, { fault: 'backfill' }>): Promise<void> {
    const { topic, subscriber } = JOINING;
    await this.#operate(`a backfill of ${topic} for ${subscriber}`, async (db) => {
      const { backfill } = this.#world.builds.next.bus;
      const since = new Date(this.#clock.now() - 365 * DAY);
      const until = Date.now() + 2 * SECOND;
      const { written } = await backfill(db, { topic, subscriber, since, by: 'chaos', perMinute, until });
      return `writes ${written} deliveries`;
    });
  }

  /** Goes on with the backfills that are under way, and then with the lanes that dead letters halt, as operators do. */
  async #settleWhatWaits(): Promise<void> {
    const { backfills, halts } = await this.#look();
    const { advanceBackfills, dismiss, replay } = this.#world.builds.next.bus;
    if (backfills > 0)
      await this.#operate('the cron', async (db) => {
        await advanceBackfills(db, Date.now() + 2 * SECOND);
        return `goes on with ${backfills} backfills`;
      });
    const [halt] = halts;
    if (!halt) return;
    await this.#operate('an operator', async (db) => {
      const { deliveryId, topic, subscriber } = halt;
      if (halts.length % 3 === 0) {
        const how = { action: 'dismiss', by: 'chaos', reason: 'chaos', until: Date.now() + SECOND } as const;
        const { dismissed } = await dismiss(db, { topic, subscriber, kind: null }, how);
        return `dismisses ${dismissed} dead letters`;
      }
      const { replayed } = await replay(db, { deliveryIds: [deliveryId] }, 'chaos', this.#operatorsNow());
      return `replays ${replayed} dead letters that halt`;
    });
  }

  /** A replay measures its window by the time at which it was asked for, which is not the run's in the database. */
  #operatorsNow(): Date {
    return new Date(this.#clock.now());
  }

  async #operate(who: string, act: (db: Database) => Promise<string>): Promise<void> {
    const { db, close } = await this.#world.builds.next.bus.connect(this.#url('operator'));
    try {
      this.#note(`${who} ${await act(db)}`);
    } catch (error) {
      this.#note(`${who} fails: ${(error as Error).message}`);
    }
    await close().catch(() => undefined);
  }

  #move(ms: number): void {
    this.#note('the clock is moved', '', ms);
    this.#clock.move(ms);
  }

  #note(fault: string, relay = '', ms?: number): void {
    const entry = { k: 'fault', t: this.#clock.now(), real: Date.now(), relay, fault, ...(ms ? { ms } : {}) };
    appendFileSync(join(this.#folder, 'log'), `${JSON.stringify(entry)}\n`);
  }

  async #look(): Promise<Rest> {
    const { rows } = await (await this.#connectControl()).query<Rest>(REST);
    return rows[0]!;
  }

  /** Past the proxy. Opened when all trouble is over. */
  #connectControl(): Promise<pg.Client> {
    this.#control ??= opened(this.#world.cluster.url(this.#name));
    return this.#control;
  }
}

/** Answers to turns that settle nothing. They come in one piece. */
const ANSWERS = {
  nothing: /"placed" : [1-9].*"settled" : null, "claimed" : \[\]/,
  something: /"placed" : [1-9].*"settled" : null, "claimed" : \[\{/,
} as const;

interface Rest {
  readonly isQuiet: boolean;
  /** Whether there is something that a relay could take at this moment. */
  readonly isDue: boolean;
  /** Null: all lanes sleep. */
  readonly nextInMs: number | null;
  /** How many are under way. */
  readonly backfills: number;
  /** Dead letters that halt something. */
  readonly halts: readonly {
    readonly deliveryId: string;
    readonly topic: string;
    readonly subscriber: string;
  }[];
  /** The processes that hold lanes. */
  readonly holders: readonly string[];
  /** Differs when something has changed. */
  readonly changes: string;
}

const REST = `
  with limited as (
    select subscriber, taken_until - (greatest(1, rate_count / 20) - 1) * rate_ms * interval '1 millisecond' / rate_count
        as allowed_at,
      coalesce(concurrency <= (
        select sum(journal.handlers) from lane_heads as lane join journal on journal.lane = lane.id
            and journal.head = lane.head and journal.number = lane.number
        where lane.subscriber = subscriber_limits.subscriber and lane.leased_until > chaos.now()
      ), false) as is_full
    from subscriber_limits
  ),
  -- When a timer or a lane may be taken: a lane not before its subscriber's limit allows it, nor in an outage before the
  -- next probe.
  waiting as (
    select greatest(due.at, next_probe_at, allowed_at) as at, true as is_free
    from lane_heads as lane left join limited using (subscriber) left join outages using (subscriber), lateral (
        select min(due_at) as at from exceptions where exceptions.lane = lane.id
        union all
        select '-infinity' where lane.tail > lane.head
            and postbud_beyond_head_1(lane.stream, lane.subscriber, lane.head, lane.tail) > 0
          and (lane.slot > 0 or not exists (select from exceptions where exceptions.lane = lane.id and is_open))
          and not exists (
            select from backfills
            where backfills.topic = lane.topic and backfills.subscriber = lane.subscriber and ended_at is null
          )
      ) as due
    where leased_until is null and not coalesce(is_full, false) and due.at is not null
    union all
    select leased_until, false from lane_heads where leased_until is not null
    union all
    select due_at, true from timers where refused_at is null
  )
  select not exists (select from awaiting)
      and not exists (select from timers where refused_at is null)
      and not exists (select from deliveries where state in ('pending', 'failing'))
      and not exists (select from lane_heads where leased_until is not null)
      and not exists (select from backfills where ended_at is null) as "isQuiet",
    exists (select from awaiting)
      or exists (select from waiting where is_free and at <= chaos.now()) as "isDue",
    (select extract(epoch from min(at) - chaos.now()) * 1000 from waiting where at > '-infinity')::float8 as "nextInMs",
    (select count(*)::int from backfills where ended_at is null) as backfills,
    (
      select coalesce(json_agg(json_build_object('deliveryId', event_id || '.' || subscriber, 'topic', topic,
        'subscriber', subscriber)), '[]')
      from exceptions join lanes on lanes.id = lane where is_open and state = 'dead_lettered'
    ) as halts,
    (select coalesce(json_agg(distinct versions.by), '[]') from lane_heads join chaos.versions
      on what = 'journal' and stored ->> 'token' = token::text where leased_until is not null) as holders,
    (select count(*) from chaos.versions)::text as changes`;
