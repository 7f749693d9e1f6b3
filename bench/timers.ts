import { catalog } from '../lib/bus/catalog/catalog.ts';
import { emit } from '../lib/bus/outbox/emit.ts';
import type { EmitOptions } from '../lib/bus/outbox/emit.ts';
import { relay } from '../lib/bus/relay/relay.ts';
import { connect } from '../lib/platform/db/connect.ts';
import type { Database } from '../lib/platform/db/connect.ts';
import { driverOf, run } from '../lib/platform/db/statement.ts';
import { createDatabase, startPostgres } from '../tests/support/postgres.ts';
import { untilAutovacuumHasRun } from './autovacuum.ts';
import type { BusOptions } from './bus/bus.ts';
import { atMost, measured, number, quantile, spreadOf, timed } from './figures.ts';
import type { Section } from './figures.ts';

const ROUNDS = 300;
const WAITING = 1_000_000;
const DUE = 10_000;
const MOST_OF_IDLE = 1.2;
const TOPIC = 'booking.reminder.due';

/** Measures what timers cost: an idle turn while many wait, their release, and setting one beside emitting an event. */
export async function benchTimers({ quick }: BusOptions): Promise<Section> {
  const [rounds, waiting, due] = [ROUNDS, WAITING, DUE].map((size) => (quick ? size / 10 : size)) as [
    number,
    number,
    number,
  ];
  const server = await startPostgres();
  const empty = await connect(await createDatabase(server.url));
  const full = await connect(await createDatabase(server.url));
  try {
    await setTimers(full.db, waiting, '1 day');
    const [idleEmpty, idleFull, emitting, setting]: number[][] = [[], [], [], []];
    // With a time of its own each turn looks for timers; in a deployment one a second does.
    const turn = async (db: Database) =>
      await timed(() => relay({ db, subscribers: [], until: Date.now() + 600_000, now: new Date() }));
    // In turn, so that all meet the same machine.
    for (let round = 0; round < rounds; round += 1) {
      idleEmpty!.push(await turn(empty.db));
      idleFull!.push(await turn(full.db));
    }
    const one = (options: EmitOptions) =>
      timed(() => full.db.transaction((tx) => emit(tx, TOPIC, catalog[TOPIC].example, options)));
    for (let round = 0; round < rounds; round += 1) {
      emitting!.push(await one({}));
      setting!.push(await one({ at: '7d', timerKey: `bench ${round}` }));
    }
    await turn(full.db);
    await setTimers(full.db, due, '-1 second');
    const releasing = await turn(full.db);
    const [row] = await run<{ left: number }>(driverOf(full.db), {
      text: 'select count(*)::int as left from timers where due_at < clock_timestamp()',
      values: [],
    });
    if (row!.left > 0) throw new Error(`${row!.left} timers are due, and were not released`);
    const half = (times: readonly number[]) => quantile(times, 0.5);
    return {
      title: 'Timers',
      rows: [
        measured('idle turn that looks for timers, of which there are none', spreadOf(idleEmpty!), ' ms'),
        measured(`idle turn that looks for timers, ${number(waiting)} wait`, spreadOf(idleFull!), ' ms'),
        atMost(
          'idle turn beside waiting timers, relative to one without',
          half(idleFull!) / half(idleEmpty!),
          MOST_OF_IDLE,
        ),
        {
          what: `release and places of ${number(due)} timers that are due, beside the others`,
          figure: `${number(releasing)} ms`,
          goal: '',
        },
        measured('emit', spreadOf(emitting!), ' ms'),
        measured('emit with at and timerKey', spreadOf(setting!), ' ms'),
        atMost('emit with at and timerKey, relative to emit', half(setting!) / half(emitting!), null),
      ],
      notes: [`Each emit committed on one connection; medians [and ranges] of ${rounds} rounds, in turn.`],
    };
  } finally {
    await empty.close();
    await full.close();
    await server.stop();
  }
}

/** Sets timers as `emit` does, but many in one statement. */
async function setTimers(db: Database, count: number, dueIn: string): Promise<void> {
  await run(driverOf(db), {
    text: `
      insert into timers (id, topic, timer_key, due_at, payload, version, producer, ordering_key, correlation_id, set_at)
      select gen_random_uuid(), $2::text, $4::text || number, clock_timestamp() + $4::text::interval, $3::text::jsonb, 1,
        'bookings', '', '', clock_timestamp()
      from generate_series(1, $1::int) as number`,
    values: [count, TOPIC, JSON.stringify(catalog[TOPIC].example), dueIn],
  });
  await untilAutovacuumHasRun((text) => run(driverOf(db), { text, values: [] }));
}
