import pg from 'pg';

import type { Change } from '../../chaos/build.ts';
import { subscriptionsOf } from '../../../lib/bus/deliveries/subscription.ts';
import { takeTurn } from '../../../lib/bus/deliveries/turn.ts';
import type { Turn } from '../../../lib/bus/deliveries/turn.ts';
import { emit } from '../../../lib/bus/outbox/emit.ts';
import { LaneRun } from '../../../lib/bus/relay/lane-run.ts';
import { PermanentError } from '../../../lib/bus/subscribers/outcome.ts';
import { connect, migrate } from '../../../lib/platform/db/connect.ts';
import type { Connection } from '../../../lib/platform/db/connect.ts';
import { sleep } from '../../../lib/platform/time.ts';
import { payment } from '../../support/bus.ts';
import { options } from '../../support/lane.ts';
import { ledger } from '../../support/ledger.ts';
import { GATES, instruments } from './instruments.ts';

/** Waits for longer than any step takes. */
const PATIENCE_MS = 10_000;

const TOPIC = 'payment.captured';

/** A database on which schedules are played, one after the other, and the processes of one. */
export class Stage {
  readonly #url: string;
  readonly #control: pg.Client;
  /** Before what else a relay's session sets. */
  readonly #relaySettings: string;
  #actors: Actor[] = [];

  private constructor(url: string, control: pg.Client, relaySettings: string) {
    this.#url = url;
    this.#control = control;
    this.#relaySettings = relaySettings;
  }

  /** Makes a database with gates on a server. @param changes of the bus's functions. */
  static async open(serverUrl: string, changes: readonly Change[] = [], relaySettings = ''): Promise<Stage> {
    const name = `model_${process.pid}_${Date.now()}`;
    const server = new pg.Client(serverUrl);
    await server.connect();
    await server.query(`create database ${name}`);
    await server.end();
    const url = new URL(serverUrl);
    url.pathname = `/${name}`;
    const { db, close } = await connect(url.href);
    await migrate(db);
    await close();
    const control = new pg.Client(url.href);
    await control.connect();
    for (const statement of await instruments(changes)) await control.query(statement);
    await control.query(`alter database ${name} set search_path = model, pg_catalog, public`);
    await control.query('set search_path = model, pg_catalog, public');
    return new Stage(url.href, control, relaySettings);
  }

  async close(): Promise<void> {
    await this.clear();
    await this.#control.end();
  }

  /** Ends what a schedule left under way, and empties the tables. */
  async clear(): Promise<void> {
    await this.#control.query('select pg_advisory_unlock_all()');
    for (const actor of this.#actors) await actor.end();
    this.#actors = [];
    await this.#control.query(`set session_replication_role = replica;
      delete from awaiting_fan_out; delete from events; delete from deliveries; delete from lanes; delete from home_lanes;
      delete from leases; delete from backlog; delete from throughput; delete from model.choices;
      set session_replication_role = origin`);
  }

  async producer(who: number): Promise<Producer> {
    const client = new pg.Client(this.#named(10 + who));
    await client.connect();
    const actor = new Producer(this, 10 + who, client);
    await this.#add(actor);
    return actor;
  }

  async relay(who: number): Promise<Relay> {
    const actor = new Relay(this, who, await connect(this.#named(who) + this.#relaySettings));
    await this.#add(actor);
    return actor;
  }

  #named(who: number): string {
    return `${this.#url}?application_name=model%20${who}`;
  }

  async #add(actor: Actor): Promise<void> {
    this.#actors.push(actor);
    const { who } = actor;
    await this.#control.query(
      `select pg_advisory_lock(${GATES}, lock) from (values (${who * 2}), (${who * 2 + 1})) as own(lock)`,
    );
  }

  async query<Row>(text: string): Promise<Row[]> {
    return (await this.#control.query(text)).rows as Row[];
  }

  /** Lets a process that waits at a gate go on to the next one. It has passed this one when the lock is back. */
  async letGo(who: number): Promise<void> {
    const lock = (await this.#waitOf(who))?.lock ?? who * 2;
    await this.query(
      `select pg_advisory_unlock(${GATES}, ${lock}); select pg_advisory_lock(${GATES}, ${lock})`,
    );
  }

  async choose(who: number, tries: boolean, isLongAgo: boolean): Promise<void> {
    await this.query(`insert into model.choices values (${who}, ${tries}, ${isLongAgo})
      on conflict (who) do update set tries = excluded.tries, is_long_ago = excluded.is_long_ago`);
  }

  /** Where a process waits: at a gate, or for the fan-out lock. */
  async placeOf(who: number): Promise<'gate' | 'lock' | null> {
    const found = await this.#waitOf(who);
    return found ? (found.key === `${GATES}` ? 'gate' : 'lock') : null;
  }

  async #waitOf(who: number): Promise<{ key: string; lock: string } | undefined> {
    const [found] = await this.query<{
      key: string;
      lock: string;
    }>(`select classid::text as key, objid::text as lock
      from pg_catalog.pg_locks join pg_stat_activity using (pid)
      where locktype = 'advisory' and not granted and application_name = 'model ${who}'`);
    return found;
  }
}

/** A process, and the statement that it has sent. */
class Actor {
  readonly who: number;
  protected readonly stage: Stage;
  protected sent: Promise<unknown> | null = null;
  #isAnswered = true;

  constructor(stage: Stage, who: number) {
    this.stage = stage;
    this.who = who;
  }

  protected send(statement: Promise<unknown>): void {
    this.#isAnswered = false;
    this.sent = statement;
    const note = () => void (this.#isAnswered = true);
    statement.then(note, note);
  }

  /** Resolves when it waits, or has its answer. */
  async rests(): Promise<'gate' | 'lock' | 'answered'> {
    for (const giveUpAt = Date.now() + PATIENCE_MS; Date.now() < giveUpAt; await sleep(0)) {
      if (this.#isAnswered) return 'answered';
      const place = await this.stage.placeOf(this.who);
      if (place) return place;
    }
    throw new Error(`process ${this.who} hangs`);
  }

  /** Passes a gate. */
  async goOn(): Promise<'gate' | 'lock' | 'answered'> {
    // It may have waited for a lock until now.
    await this.rests();
    await this.stage.letGo(this.who);
    return await this.rests();
  }

  async end(): Promise<void> {
    await this.sent?.catch(() => undefined);
  }
}

export class Producer extends Actor {
  readonly #client: pg.Client;

  constructor(stage: Stage, who: number, client: pg.Client) {
    super(stage, who);
    this.#client = client;
  }

  /** @param event its number, which is the payment's. */
  async emit(event: number): Promise<void> {
    this.send(emit(this.#client, TOPIC, payment(event + 1)));
    await this.rests();
  }

  async query(statement: 'begin' | 'commit' | 'rollback'): Promise<void> {
    await this.#client.query(statement);
  }

  override async end(): Promise<void> {
    await super.end();
    await this.#client.end();
  }
}

interface Call {
  readonly event: number;
  readonly end: (error: Error | null) => void;
}

/** A relay whose turns and handlers go on when the player says so. */
export class Relay extends Actor {
  readonly #connection: Connection;
  #run: LaneRun | null = null;
  /** The handler that was called and has not ended. */
  call: Call | null = null;

  readonly #subscribers = [
    ledger(
      (number) =>
        new Promise<void>((resolve, reject) => {
          this.call = { event: number - 1, end: (error) => (error ? reject(error) : resolve()) };
        }),
      { maxAttempts: 2 },
    ),
  ];

  constructor(stage: Stage, who: number, connection: Connection) {
    super(stage, who);
    this.#connection = connection;
  }

  async turn(claims: boolean): Promise<void> {
    const run = this.#run;
    const outcome = run?.isPaused ? run.yieldOutcome(false) : null;
    const turn = takeTurn(this.#connection.db, {
      outcomes: outcome ? [outcome] : [],
      subscriptions: claims ? subscriptionsOf(this.#subscribers) : new Map(),
      // A lane at a time.
      maxLanes: 8,
      maxDeliveries: 2,
      maxFannedOut: 1000,
      isLooking: claims,
      awaited: [],
      now: null,
    });
    this.send(turn.then((answer) => this.#answered(answer, outcome ? run : null)));
    await this.rests();
  }

  #answered({ settled, lanes, nowMs }: Turn, run: LaneRun | null): void {
    if (run && settled?.held.has(run.lane.id)) run.keep(null, () => undefined);
    if (run) this.#run = null;
    const [lane] = lanes;
    if (!lane) return;
    this.#run = new LaneRun(lane, nowMs, options({ clock: Date.now, leaseClock: Date.now }));
    this.#run.start();
  }

  /** Ends the handler that was called, and waits until the relay has gone on. */
  async endCall(how: 'ok' | 'throw' | 'throw for good'): Promise<void> {
    const { call } = this;
    this.call = null;
    call?.end(
      how === 'ok' ? null : how === 'throw' ? new Error('as planned') : new PermanentError('as planned'),
    );
    while (this.call === null && !this.#run!.isPaused) await sleep(0);
  }

  override async end(): Promise<void> {
    await super.end();
    for (; this.call; await sleep(0)) {
      const { call } = this;
      this.call = null;
      call.end(new PermanentError('it is over'));
    }
    await this.#connection.close();
  }
}
