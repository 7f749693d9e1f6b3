import { fork } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';

import { build } from 'esbuild';
import pg from 'pg';

import { catalog } from '../../../lib/bus/catalog/catalog.ts';
import { emit } from '../../../lib/bus/outbox/emit.ts';
import { RECEIVED_TABLE } from '../../../lib/elsewhere/receive/receiver.ts';
import { connect } from '../../../lib/platform/db/connect.ts';
import type { Database } from '../../../lib/platform/db/connect.ts';
import { sleep } from '../../../lib/platform/time.ts';
import { createDatabase, createEmptyDatabase, freePort } from '../../support/postgres.ts';
import { randomFrom } from '../../support/random.ts';
import { ROOT } from '../build.ts';
import { temporaryFolder } from '../temporary-folder.ts';
import { finish } from './finish.ts';
import { judge } from './judge.ts';
import type { Judged } from './judge.ts';
import type { Mistake, PlayClock, ReceiverOrders, RelayOrders } from './orders.ts';

export interface PlayOptions {
  /** Of a Postgres server. */
  readonly serverUrl: string;
  readonly seed: number;
  /** Whether to kill nobody any more. */
  readonly isOver: (kills: Kills) => boolean;
  /** A mistake of the receivers that the play is to find. */
  readonly mistake?: Mistake | null;
}

export interface Kills {
  readonly relays: number;
  readonly receivers: number;
}

export interface Played extends Kills, Judged {}

/** Half of the events are in the order of the whole topic. */
const KEYS = ['', '', '', '', 'bkg_1', 'bkg_2', 'bkg_3', 'bkg_4'];

/** A lease of 35 seconds runs out in little more than one. */
const SPEED = 30;

/**
 * Plays a bus and two components elsewhere whose processes are killed (SIGKILL) at random, again and again, while producers
 * emit; then lets them finish, and judges the effects.
 *
 * The seed decides who is killed after how long, and what is emitted. What a kill hits is left to the machine.
 */
export async function play({ serverUrl, seed, isOver, mistake = null }: PlayOptions): Promise<Played> {
  const random = randomFrom(seed);
  const [busUrl, url, port] = await Promise.all([
    createDatabase(serverUrl),
    createEmptyDatabase(serverUrl),
    freePort(),
  ]);
  const pool = new pg.Pool({ connectionString: url });
  await pool.query(RECEIVED_TABLE + TABLES + (mistake === 'forgets' ? FORGETTING : ''));
  const { db, close } = await connect(busUrl);
  const programs = await bundle();
  const clock: PlayClock = { base: Date.now(), speed: SPEED };
  const loadRelay = () => load(programs.relay, { busUrl, port, clock } satisfies RelayOrders);
  const loadReceiver = () => load(programs.receiver, { url, port, mistake } satisfies ReceiverOrders);

  const kills = { relays: 0, receivers: 0 };
  let isPlaying = true;
  const killAgainAndAgain = async (
    which: keyof Kills,
    load: () => Promise<ChildProcess>,
    longestMs: number,
  ) => {
    // The next one is loaded while this one lives.
    for (let next = load(); isPlaying;) {
      const process = await begin(await next);
      next = load();
      await sleep(random() * longestMs);
      await kill(process);
      kills[which] += 1;
      if (random() < 0.3) await sleep(random() * 400);
      if (isOver(kills)) isPlaying = false;
      if (!isPlaying) await kill(await next);
    }
  };
  const produce = async () => {
    while (isPlaying) {
      await emitSome(db, random);
      await sleep(random() * 150);
    }
  };
  try {
    await Promise.all([
      produce(),
      produce(),
      killAgainAndAgain('relays', loadRelay, 1200),
      killAgainAndAgain('relays', loadRelay, 2500),
      killAgainAndAgain('receivers', loadReceiver, 1200),
    ]);
    const receiver = await begin(await loadReceiver());
    await finish(db, port, clock);
    await kill(receiver);
    return { ...kills, ...(await judge(db, pool)) };
  } finally {
    await Promise.all([close(), pool.end(), rm(programs.folder, { recursive: true, force: true })]);
  }
}

async function emitSome(db: Database, random: () => number): Promise<void> {
  const orderingKey = KEYS[Math.floor(random() * KEYS.length)]!;
  const payload = catalog['payment.captured'].example;
  const count = Math.ceil(random() * 12);
  await db.transaction(async (tx) => {
    for (let number = 1; number <= count; number += 1)
      await emit(tx, 'payment.captured', payload, { orderingKey });
  });
}

/** The tables that the components write to. A component writes its effects in order, so their places are in order. */
const TABLES = `
  create table effects (
    place bigserial, subscriber text not null, ordering_key text not null, event_id uuid not null
  );
  create table refusals (subscriber text not null, event_id uuid not null);
  create table gaps (subscriber text not null, missing_id uuid not null, was_skipped boolean not null);`;

/** Forgets each event in the transaction that remembers it. */
const FORGETTING = `
  create function forget() returns trigger language plpgsql as $$
  begin
    delete from postbud_received where event_id = new.event_id and subscriber = new.subscriber;
    return null;
  end $$;
  create trigger forgets after insert on postbud_received for each row execute function forget();`;

interface Programs {
  readonly folder: string;
  readonly relay: string;
  readonly receiver: string;
}

/** Bundles what the processes run, so that they start in a third of the time. */
async function bundle(): Promise<Programs> {
  const folder = await temporaryFolder('elsewhere');
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  const source = (name: string) => join(ROOT, 'tests/chaos/elsewhere', name);
  await build({
    entryPoints: { relay: source('relay-process.ts'), receiver: source('receiver-process.ts') },
    bundle: true,
    packages: 'external',
    platform: 'node',
    format: 'esm',
    outdir: folder,
    outExtension: { '.js': '.mjs' },
    logLevel: 'warning',
  });
  return { folder, relay: join(folder, 'relay.mjs'), receiver: join(folder, 'receiver.mjs') };
}

const children = new Set<ChildProcess>();
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL');
});

/** Starts a process, which does nothing before `begin`. */
async function load(program: string, orders: object): Promise<ChildProcess> {
  const child = fork(program, [JSON.stringify(orders)]);
  children.add(child);
  await saysSomething(child);
  return child;
}

async function begin(child: ChildProcess): Promise<ChildProcess> {
  child.send('begin');
  await saysSomething(child);
  return child;
}

async function saysSomething(child: ChildProcess): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    child.once('message', () => resolve());
    child.once('exit', (code) => reject(new Error(`${child.spawnargs.join(' ')} ended with ${code}`)));
  });
}

async function kill(child: ChildProcess): Promise<void> {
  const gone = new Promise((resolve) => child.once('exit', resolve));
  if (child.exitCode !== null) throw new Error(`${child.spawnfile} ended by itself with ${child.exitCode}`);
  child.kill('SIGKILL');
  await gone;
  children.delete(child);
}
