import type pg from 'pg';

import { opened } from '../../chaos/produce.ts';
import { takeTurn } from '../../../lib/bus/deliveries/turn.ts';
import { emit } from '../../../lib/bus/outbox/emit.ts';
import { migrate } from '../../../lib/bus/migrations/migrate.ts';
import { connect } from '../../../lib/platform/db/connect.ts';
import type { Connection } from '../../../lib/platform/db/connect.ts';
import { sleep } from '../../../lib/platform/time.ts';
import { payment } from '../../support/bus.ts';
import type { PostgresServer } from '../../support/postgres.ts';
import type { Scope } from '../world.ts';
import type { Actor } from './actors.ts';
import { GATES, instruments } from './instruments.ts';
import { SOUND } from './planted.ts';

export const TOPIC = 'payment.captured';

/** Starts anew in no less than this, and again as long as it recovers. */
const RECOVERY_MS = 20;

/** A server, which can crash if it is ours. */
export type Server = Pick<PostgresServer, 'url'> & Partial<Pick<PostgresServer, 'restart'>>;

/** A database on which schedules are played, one after the other, and the processes of one. */
export class Stage {
  readonly #server: Server;
  readonly #url: string;
  #control: pg.Client;
  /** The operators', past all gates. */
  readonly operators: Connection;
  /** Before what else a relay's session sets. */
  readonly relaySettings: string;
  #actors: Actor[] = [];
  /** The process that writes to the disk what nobody waits for, while it is stopped. */
  #walWriter: number | null = null;
  /** No crash takes them back. */
  #clockSteps: string[] = [];

  private constructor(
    server: Server,
    url: string,
    control: pg.Client,
    operators: Connection,
    settings: string,
  ) {
    this.#server = server;
    this.#url = url;
    this.#control = control;
    this.operators = operators;
    this.relaySettings = settings;
  }

  /** Makes a database with gates on a server. @param mistake is built into its functions. */
  static async open(server: Server, mistake = SOUND): Promise<Stage> {
    const name = `model_${process.pid}_${Date.now()}`;
    const maker = await opened(server.url);
    await maker.query(`create database ${name}`);
    await maker.end();
    const url = new URL(server.url);
    url.pathname = `/${name}`;
    const operators = await connect(url.href);
    await migrate(operators.db);
    const control = await opened(url.href);
    for (const statement of await instruments(mistake.changes)) await control.query(statement);
    await control.query(`alter database ${name} set search_path = model, pg_catalog, public`);
    await control.query(CONTROL);
    // Its sessions have to begin with that path.
    await operators.close();
    return new Stage(server, url.href, control, await connect(url.href), mistake.settings);
  }

  async close(): Promise<void> {
    await this.clear();
    await this.operators.close();
    await this.#control.end();
  }

  /** Sets the stage of a scope: what is fanned out when it begins, and what has to reach the disk by then. */
  async set({ fannedOut, joinsLate, faults, keys }: Scope): Promise<void> {
    const client = await this.client();
    for (let event = 0; event < fannedOut; event += 1) {
      await client.query('begin');
      await emit(client, TOPIC, payment(event + 1), keyOf(keys[event]));
      await client.query('commit');
    }
    await client.end();
    if (joinsLate)
      for (const table of ['events', 'awaiting_fan_out'])
        await this
          .query(`update ${table} set subscribers = array_remove(subscribers, 'ledger'), open = open - 1
          where ${table === 'events' ? 'id' : 'event_id'} = (select id from events order by created_at limit 1)`);
    if (fannedOut > 0)
      await takeTurn(this.operators.db, {
        outcomes: [],
        subscriptions: new Map(),
        maxLanes: 1,
        maxDeliveries: 1,
        maxFannedOut: 1000,
        isLooking: false,
        awaited: [],
        now: null,
      });
    if ((faults['crash'] ?? 0) > 0) await this.#holdDisk();
  }

  /** From here on nothing is written to the disk that nobody waits for. */
  async #holdDisk(): Promise<void> {
    for (const setting of ['autovacuum = off', 'bgwriter_lru_maxpages = 0', "checkpoint_timeout = '1h'"])
      await this.query(`alter system set ${setting}`);
    await this.query('select pg_reload_conf()');
    // A sequence is logged 32 numbers ahead, and again after a checkpoint.
    await this.query('checkpoint');
    const [found] = await this.query<{ pid: number }>(
      "select pid from pg_stat_activity where backend_type = 'walwriter'",
    );
    this.#walWriter = found!.pid;
    process.kill(found!.pid, 'SIGSTOP');
  }

  /** Ends the server and starts it again. @param keeps whether all that was committed is there then. */
  async restart(mode: 'immediate' | 'fast', keeps: boolean): Promise<void> {
    if (keeps) await this.query(FLUSH);
    // A stopped process does not end in order. One that goes on would write.
    if (this.#walWriter !== null) process.kill(this.#walWriter, mode === 'fast' ? 'SIGCONT' : 'SIGKILL');
    this.#walWriter = null;
    await this.#server.restart!(mode, 0);
    this.#control = await this.#reopened();
    await this.#control.query(CONTROL);
    await this.query(`delete from model.clock_steps; ${this.#clockSteps.join(';')}`);
    for (const actor of this.#actors) {
      await this.#holdGates(actor);
      await actor.reconnect();
    }
  }

  /** The clock steps back behind all that it was read for. */
  async stepBack(): Promise<void> {
    const step = `insert into model.clock_steps values ('-1 day')`;
    this.#clockSteps.push(step);
    await this.query(step);
  }

  async #reopened(): Promise<pg.Client> {
    for (let tries = 0; ; tries += 1) {
      try {
        return await opened(this.#url);
      } catch (error) {
        if (tries === 500) throw error;
        await sleep(RECOVERY_MS);
      }
    }
  }

  /** Ends what a schedule left under way, and empties the tables. */
  async clear(): Promise<void> {
    if (this.#walWriter !== null) process.kill(this.#walWriter, 'SIGCONT');
    this.#walWriter = null;
    await this.#control.query('select pg_advisory_unlock_all()');
    for (const actor of this.#actors) await actor.end();
    this.#actors = [];
    this.#clockSteps = [];
    const prepared = await this.query<{ gid: string }>(
      'select gid from pg_prepared_xacts where database = current_database()',
    );
    for (const { gid } of prepared) await this.query(`rollback prepared '${gid}'`);
    await this.#control.query(`set session_replication_role = replica;
      ${EMPTIED.map((table) => `delete from ${table};`).join(' ')} select setval('delivery_positions', 1, false);
      set session_replication_role = origin`);
  }

  /** @param name by which the gates know a process; without it they let it pass. */
  url(name = 'stage'): string {
    return `${this.#url}?application_name=${encodeURIComponent(name)}`;
  }

  /** Of a process that meets no gate. */
  async client(): Promise<pg.Client> {
    return await opened(this.url());
  }

  /** Takes a process in, and holds it at each gate. */
  async add<One extends Actor>(actor: One): Promise<One> {
    this.#actors.push(actor);
    await this.#holdGates(actor);
    await actor.reconnect();
    return actor;
  }

  async #holdGates({ who }: Actor): Promise<void> {
    await this.query(
      `select pg_advisory_lock(${GATES}, lock) from (values (${who * 2}), (${who * 2 + 1})) as own(lock)`,
    );
  }

  async query<Row>(text: string): Promise<Row[]> {
    return (await this.#control.query(text)).rows as Row[];
  }

  /** Changes what no process of the bus would. @param isDurable whether it reaches the disk. */
  async change(text: string, isDurable: boolean): Promise<void> {
    await this.query(`set local synchronous_commit = ${isDurable ? 'on' : 'off'}; ${text}`);
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

  /** Ends the connections of a process. */
  async cut(who: number): Promise<void> {
    const of = `from pg_stat_activity where application_name = 'model ${who}' and datname = current_database()`;
    await this.query(`select pg_terminate_backend(pid) ${of}`);
    while ((await this.query(`select ${of}`)).length > 0) await sleep(1);
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
      where locktype = 'advisory' and not granted and application_name = 'model ${who}' and datname = current_database()`);
    return found;
  }
}

/** The ordering key of a scope's event. The two share a lane. */
export function keyOf(key: number | undefined): { orderingKey?: string } {
  return key === undefined ? {} : { orderingKey: `key ${12 + key}` };
}

/** What the player itself writes waits for no disk, and so takes nothing along that others have written. */
const CONTROL = `set search_path = model, pg_catalog, public; set synchronous_commit = off; set model.begins = 'yes'`;

const FLUSH = `set local synchronous_commit = on; select pg_logical_emit_message(true, 'model', '')`;

const EMPTIED = [
  'awaiting_fan_out',
  'events',
  'deliveries',
  'lanes',
  'home_lanes',
  'leases',
  'halts',
  'pauses',
  'backfills',
  'timers',
  'error_groups',
  'backlog',
  'throughput',
  'throughput_minutes',
  'reserved_positions',
  'model.choices',
  'model.effects',
  'model.clock_steps',
];
