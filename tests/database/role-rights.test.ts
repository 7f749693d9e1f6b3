import { readFileSync } from 'node:fs';

import pg from 'pg';
import { describe, expect, inject, onTestFinished } from 'vitest';

import { backfill } from '../../lib/bus/deliveries/operations/backfill.ts';
import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { cancelTimer } from '../../lib/bus/outbox/emit.ts';
import { outboxEvent } from '../../lib/bus/outbox/record.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { indexEvents } from '../../lib/components/identifiers/index-events.ts';
import { pruneAll } from '../../lib/components/prune.ts';
import { examine } from '../../lib/bus/doctor/examine.ts';
import { readFamily } from '../../lib/console/event/family.ts';
import { readOverview } from '../../lib/console/overview/read.ts';
import { duties, perform } from '../../lib/edge/cron/duties.ts';
import { store } from '../../lib/elsewhere/emit/call.ts';
import { migrate } from '../../lib/bus/migrations/migrate.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import { DAY, MINUTE } from '../../lib/platform/time.ts';
import { storedWithoutLedger } from '../support/backfills.ts';
import { test as busTest } from '../support/bus-test.ts';
import {
  drainLive,
  emitPayments,
  onConnectionsOf,
  openTransaction,
  payloadOf,
  payment,
  rows,
  emitAlone,
} from '../support/bus.ts';
import { statesOf } from '../support/records.ts';
import { refuse } from '../support/ledger.ts';
import { createEmptyDatabase } from '../support/postgres.ts';
import { createRole, grant } from '../support/roles.ts';
import type { Role } from '../support/roles.ts';

/** The bus with three roles that `npm run grant` granted one right each. */
const test = busTest.extend('roles', { scope: 'file' }, async ({ database }, { onCleanup }) => {
  const made: Role[] = [];
  onCleanup(async () => {
    for (const role of made) await role.drop();
  });
  const granted = async (prefix: string, ...right: string[]) => {
    const role = await createRole(database.url, prefix);
    expect(await grant(database.url, '--role', role.name, ...right)).toMatchObject({ code: 0 });
    made.push(role);
    return role;
  };
  return {
    bookings: await granted('bookings', '--producer', 'bookings'),
    functions: await granted('functions', '--relay'),
    oncall: await granted('oncall', '--read'),
  };
});

/** Runs statements on a connection of the role's own. @returns the rows of the last one. */
async function as(role: Pick<Role, 'url'>, text: string, values?: unknown[]) {
  const client = new pg.Client(role.url);
  await client.connect();
  try {
    return (await client.query(text, values)).rows as unknown[];
  } finally {
    await client.end();
  }
}

const approved = payloadOf('booking.approved');

/** The rows of a table in a document: its cells without their marks. */
function documentTable(path: string, name: string): string[][] {
  const text = readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
  const [, table = ''] = text.split(`<!-- ${name} -->\n`);
  const lines = table.split('\n\n')[0]!.split('\n').slice(2);
  return lines.map((line) =>
    line.split(' | ').map((cell) => cell.replaceAll(/^\| | \|$/g, '').replaceAll('`', '')),
  );
}

describe('a role that was granted the topics of bookings', () => {
  test.for(documentTable('docs/elsewhere.md', 'tried'))(
    'tries %s and gets %s, as docs/elsewhere.md says',
    async ([statements, got], { bus, roles }) => {
      const tried = as(roles.bookings, statements!).then(
        () => 'the lock',
        ({ code }: pg.DatabaseError) => code,
      );
      expect(await tried).toBe(got);
      expect(await rows(bus.db, 'select from events')).toEqual([]);
    },
  );

  test('emits them in SQL', async ({ bus, roles }) => {
    const [row] = await as(roles.bookings, 'select postbud_emit($1, $2) as id', [
      'booking.approved',
      approved,
    ]);
    expect(await rows(bus.db, 'select id::text, producer from events')).toEqual([
      { ...(row as { id: string }), producer: 'bookings' },
    ]);
  });

  test('is told whose topics it was granted, and how to be granted others', async ({ roles }) => {
    const { name } = roles.bookings;
    await expect(as(roles.bookings, `select postbud_emit('payment.captured', '{}')`)).rejects.toMatchObject({
      message: `${name} may not emit payment.captured: it is granted the topics of bookings`,
      hint: `npm run grant -- --role ${name} --producer payments`,
    });
  });

  test('may call no function of ours but those that emit and cancel a timer, and has no right on any table', async ({
    bus,
    roles,
  }) => {
    const { name } = roles.bookings;
    const callable = await rows(
      bus.db,
      `select proname from pg_proc where pronamespace = 'public'::regnamespace and has_function_privilege($1, oid, 'execute')
       order by proname`,
      [name],
    );
    expect(callable).toEqual([{ proname: 'postbud_cancel_timer' }, { proname: 'postbud_emit' }]);
    const touched = await rows(
      bus.db,
      `select relname from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'v', 'S') and case relkind
         when 'S' then has_sequence_privilege($1, oid, 'usage, select, update')
         else has_table_privilege($1, oid, 'select, insert, update, delete, truncate, references, trigger') end`,
      [name],
    );
    expect(touched).toEqual([]);
  });

  test('is the role of set role: a superuser who sets it is held to its grants', async ({ bus, roles }) => {
    const set = `set role ${roles.bookings.name};`;
    await as(bus, `${set} select postbud_emit('booking.approved', '${JSON.stringify(approved)}')`);
    await expect(as(bus, `${set} select postbud_emit('payment.captured', '{}')`)).rejects.toMatchObject({
      code: 'PB004',
    });
  });

  test('passes them on to roles that inherit from it, and to no others', async ({ bus, roles }) => {
    const [heir, stranger] = [await createRole(bus.url, 'heir'), await createRole(bus.url, 'stranger')];
    await rows(bus.db, `grant ${roles.bookings.name} to ${heir.name}`);
    await as(heir, 'select postbud_emit($1, $2)', ['booking.approved', approved]);
    await expect(as(heir, `select postbud_emit('payment.captured', '{}')`)).rejects.toThrow(
      `${heir.name} may not emit payment.captured: it is granted the topics of bookings`,
    );
    await expect(
      as(stranger, 'select postbud_emit($1, $2)', ['booking.approved', approved]),
    ).rejects.toMatchObject({ code: '42501' });
    await heir.drop();
    await stranger.drop();
  });

  test('keeps its right when the functions are made anew and migrated', async ({ bus, roles }) => {
    await rows(bus.db, `revoke execute on function postbud_emit from ${roles.bookings.name}`);
    await rows(bus.db, 'grant execute on all functions in schema public to public');
    await migrate(bus.db);
    await as(roles.bookings, 'select postbud_emit($1, $2)', ['booking.approved', approved]);
    await expect(as(roles.bookings, `select postbud_slot('bkg')`)).rejects.toMatchObject({ code: '42501' });
  });
});

/** A schema with names of ours, and with types and operators of Postgres. */
const HOSTILE = `
  create schema hostile;
  grant usage on schema hostile to public;
  create domain hostile.jsonb as int;
  create domain hostile.text as int;
  create domain hostile.timestamptz as int;
  create domain hostile.float8 as int;
  create table hostile.events (id int);
  create table hostile.timers (id int);
  create function hostile.postbud_emit(topic pg_catalog.text, payload pg_catalog.jsonb) returns uuid
    language sql return gen_random_uuid();
  create function hostile.postbud_cancel_timer(topic pg_catalog.text, timer_key pg_catalog.text) returns boolean
    language sql return false;
  create function hostile.never(timestamp with time zone, interval) returns timestamp with time zone
    language sql return 'infinity'::timestamp with time zone;
  create operator hostile.+ (leftarg = timestamp with time zone, rightarg = interval, function = hostile.never)`;

describe('emit of the package, with such a role', () => {
  const emitting = async (role: Role, ...[topic, payload, options]: Parameters<typeof outboxEvent>) => {
    const client = new pg.Client(role.url);
    await client.connect();
    try {
      await client.query('begin');
      const id = await store(client, outboxEvent(topic, payload, options));
      await client.query('commit');
      return id;
    } finally {
      await client.end();
    }
  };

  test('stores what emit of the bus stores, whatever its options', async ({ bus, roles }) => {
    const options = {
      orderingKey: 'bkg_1',
      dedupeKey: 'once',
      correlationId: 'cor_1',
      causationId: 'evt_1',
      traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    };
    const ids: string[] = [];
    for (const given of [{}, options, { causationId: 'evt_1' }]) {
      ids.push((await emitAlone(bus.db, 'booking.approved', approved, { ...given })).id);
      await rows(bus.db, 'update events set dedupe_key = null');
      ids.push(await emitting(roles.bookings, 'booking.approved', approved, given));
    }
    const stored = await rows<object>(
      bus.db,
      `select to_jsonb(events) - array['id', 'seq', 'created_at', 'dedupe_key'] || jsonb_build_object(
         'correlation_id', nullif(correlation_id, id::text)) as event from events order by seq`,
    );
    expect(stored).toHaveLength(ids.length);
    for (const index of [0, 2, 4]) expect(stored[index + 1]).toEqual(stored[index]);
  });

  test.for([
    ['that is empty', "''"],
    ['whose first schema has names of ours', 'hostile, public'],
    ['whose first schema has names of Postgres, too', 'hostile, pg_catalog, public'],
  ])(
    'records and cancels whatever the search path is, also one %s',
    async ([, searchPath], { bus, roles }) => {
      await rows(bus.db, HOSTILE);
      onTestFinished(async () => void (await rows(bus.db, 'drop schema hostile cascade')));
      const client = new pg.Client(roles.bookings.url);
      await client.connect();
      onTestFinished(() => client.end());
      await client.query(`set search_path = ${searchPath}`);
      await client.query('begin');
      const id = await store(client, outboxEvent('booking.approved', approved));
      const later = outboxEvent('booking.approved', approved, { at: '24h', timerKey: 'b-1' });
      const timerId = await store(client, later);
      await client.query('commit');
      expect(await rows(bus.db, 'select id::text from events')).toEqual([{ id }]);
      const inADay = "due_at - set_at between interval '23 hours' and interval '25 hours' as in_a_day";
      expect(await rows(bus.db, `select id::text, ${inADay} from timers`)).toEqual([
        { id: timerId, in_a_day: true },
      ]);
      await client.query('begin');
      expect(await cancelTimer(client, 'booking.approved', 'b-1')).toBe(true);
      await client.query('commit');
      expect(await rows(bus.db, 'select from timers')).toEqual([]);
    },
  );

  test('says that a database without the function is not the bus’s', async () => {
    const client = new pg.Client(await createEmptyDatabase(inject('postgresUrl')));
    await client.connect();
    onTestFinished(() => client.end());
    for (const statement of ['begin', 'rollback; drop schema public; begin']) {
      await client.query(statement);
      const stored = store(client, outboxEvent('booking.approved', approved));
      await expect(stored).rejects.toThrow('connect to the database of the bus');
    }
    await client.query('rollback; begin');
    const cancelled = cancelTimer(client, 'booking.approved', 'b-1');
    await expect(cancelled).rejects.toThrow('connect to the database of the bus');
  });

  test('is recorded once under a dedupe key', async ({ bus, roles }) => {
    const options = { dedupeKey: 'once' };
    const { id } = await emitAlone(bus.db, 'booking.approved', approved, options);
    expect(await emitting(roles.bookings, 'booking.approved', approved, options)).toBe(id);
  });

  test('says in its own errors what the database refused', async ({ bus, roles }) => {
    await expect(emitting(roles.bookings, 'payment.captured', payment(1))).rejects.toMatchObject({
      code: 'not_your_topic',
      topic: 'payment.captured',
      message: expect.stringContaining(`npm run grant -- --role ${roles.bookings.name} --producer payments`),
    });
    const publishedAs = (change: string) =>
      rows(bus.db, `update catalog_topics set ${change} where topic = 'booking.approved'`);
    await publishedAs(`schemas = jsonb_set(schemas, '{1,required}', '["feeMinor"]')`);
    await publishedAs(`schemas = jsonb_set(schemas, '{1,properties,feeMinor}', '{ "type": "integer" }')`);
    await expect(emitting(roles.bookings, 'booking.approved', approved)).rejects.toMatchObject({
      code: 'invalid_payload',
      issues: [{ path: 'feeMinor', message: 'is missing' }],
    });
    await publishedAs(`version = 0 + version, topic = 'booking.accepted'`);
    await expect(emitting(roles.bookings, 'booking.approved', approved)).rejects.toMatchObject({
      code: 'unknown_topic',
      message: expect.stringContaining('unknown topic "booking.approved"'),
    });
    await migrate(bus.db);
  });
});

describe('a role that was granted what relays do', () => {
  test('emits, delivers, replays, prunes and does the cron’s duties, and has no right to more', async ({
    bus,
    roles,
    ledger,
    handed,
  }) => {
    const { db, close } = await connect(roles.functions.url);
    await emitAlone(db, 'payment.captured', payment(1));
    await emitAlone(db, 'payment.captured', payment(2));
    const others = (['bookings', 'notifications', 'accounting'] as const).map((name) =>
      subscriber(name, { 'payment.captured': () => undefined }),
    );
    await drainLive(db, [...others, ledger((number) => (number === 1 ? refuse() : undefined))]);
    expect(await statesOf(bus.db)).toEqual(['dead_lettered', 'delivered']);
    await replay(db, { topic: 'payment.captured', since: '3650d' }, 'kari');
    await drainLive(db, [ledger()]);
    expect(handed).toEqual([1, 2, 1]);
    const { undone } = await perform(duties, db);
    expect(undone).toEqual([]);
    await indexEvents({ db, until: Date.now() + MINUTE });
    expect((await examine(db, 100)).findings).toEqual([]);
    expect(await readOverview(db, [])).toMatchObject({ totals: { deadLettered: 0 } });
    const pruned = await pruneAll({ db, until: Date.now() + MINUTE, now: new Date(Date.now() + 31 * DAY) });
    expect(pruned.events).toBeGreaterThan(0);
    await close();
    for (const statement of [
      'drop table events',
      'truncate events',
      'create table public.mine (id int)',
      'delete from operator_actions',
      `insert into role_grants values ('functions', 'read', '')`,
      `delete from catalog_topics`,
      `select postbud_apply_grants_1('{}') from postbud_withdraw_grants_1('kari', '{}')`,
    ])
      await expect(as(roles.functions, statement), statement).rejects.toMatchObject({ code: '42501' });
  });

  test('backfills', async ({ bus, roles, ledger, handed }) => {
    await storedWithoutLedger(bus.db, 1, 2);
    await onConnectionsOf(roles.functions.url, async (db) => {
      const asked = { topic: 'payment.captured', subscriber: 'ledger', since: new Date(0), by: 'kari' };
      expect(await backfill(db, asked)).toMatchObject({ written: 2, isEnded: true });
      await drainLive(db, [ledger()]);
    });
    expect(handed).toEqual([1, 2]);
  });
});

test('a relay whose role may not see when others’ transactions began waits for all that emit', async ({
  bus,
  roles,
}) => {
  const handed: string[] = [];
  const ledger = subscriber('ledger', { 'payment.captured': ({ id }) => void handed.push(id) });
  const [first] = await emitPayments(bus.db, 1, 1);
  const open = await openTransaction(bus.url);
  const second = await open.emit('payment.captured', payment(2));
  await onConnectionsOf(roles.functions.url, async (db) => {
    await drainLive(db, [ledger]);
    expect(handed).toEqual([]);
    await open.commit();
    await drainLive(db, [ledger]);
  });
  expect(handed).toEqual([first, second]);
});

test('a relay whose role may not see how far events are numbered delivers them all the same', async ({
  bus,
  roles,
}) => {
  const handed: string[] = [];
  const ledger = subscriber('ledger', { 'payment.captured': ({ id }) => void handed.push(id) });
  const { user } = new pg.Client(roles.functions.url);
  await rows(bus.db, `revoke all on sequence awaiting_number_seq from ${user}`);
  const ids = await emitPayments(bus.db, 1, 2);
  await onConnectionsOf(roles.functions.url, async (db) => await drainLive(db, [ledger]));
  await migrate(bus.db);
  expect(handed).toEqual(ids);
});

describe('a role that was granted to read', () => {
  test('runs the statements of docs/operate.md, and changes nothing', async ({ bus, roles }) => {
    const text = readFileSync(new URL('../../docs/operate.md', import.meta.url), 'utf8');
    const statements = [...text.matchAll(/```sql\n(.*?)```/gs)]
      .flatMap(([, code]) => code!.split(/;\s*/))
      .filter((statement) => /^\s*select/.test(statement) && !statement.includes('<'));
    expect(statements.length).toBeGreaterThan(1);
    for (const statement of statements) await as(roles.oncall, statement);
    const { db, close } = await connect(roles.oncall.url);
    expect((await examine(db, 100)).findings).toEqual([]);
    expect(await readOverview(db, [])).toMatchObject({ totals: { deadLettered: 0 } });
    await close();
    const relations = await rows<{ name: string; isTable: boolean }>(
      bus.db,
      `select relname as name, relkind = 'r' as "isTable" from pg_class
       where relnamespace = 'public'::regnamespace and relkind in ('r', 'v')`,
    );
    expect(relations.some(({ isTable }) => !isTable)).toBe(true);
    for (const { name, isTable } of relations) {
      await as(roles.oncall, `select from ${name} limit 1`);
      if (isTable)
        await expect(as(roles.oncall, `delete from ${name}`), name).rejects.toMatchObject({ code: '42501' });
    }
    await expect(
      as(roles.oncall, 'select postbud_emit($1, $2)', ['booking.approved', approved]),
    ).rejects.toMatchObject({ code: '42501' });
  });

  test('sees what an event has led to', async ({ bus, roles, ledger }) => {
    const [id] = await emitPayments(bus.db, 1, 1);
    await drainLive(bus.db, [ledger()]);
    await onConnectionsOf(roles.oncall.url, async (db) => {
      const family = await readFamily(db, id!);
      expect(family).toMatchObject({ causes: [], effects: [] });
    });
  });
});

describe('npm run grant', () => {
  test('lists what it granted, and takes it back', async ({ bus, expect }) => {
    const role = await createRole(bus.url, 'payments');
    const may = async () =>
      (await grant(bus.url)).output
        .split('\n')
        .filter((line) => line.startsWith(role.name))
        .map((line) => line.slice(role.name.length).trim());
    await grant(bus.url, '--role', role.name, '--producer', 'payments');
    expect(await grant(bus.url, '--role', role.name, '--producer', 'payouts')).toEqual({
      code: 0,
      output: `${role.name} may emit the topics of payouts.\n`,
    });
    await grant(bus.url, '--role', role.name, '--read');
    expect(await may()).toEqual([
      'emit the topics of payments',
      'emit the topics of payouts',
      'read all tables',
    ]);
    await as(role, 'select postbud_emit($1, $2)', ['payment.captured', payment(1)]);
    await grant(bus.url, '--role', role.name, '--producer', 'payments', '--revoke');
    await expect(as(role, `select postbud_emit('payment.captured', '{}')`)).rejects.toMatchObject({
      code: 'PB004',
    });
    await as(role, 'select from events');
    expect(await grant(bus.url, '--role', role.name, '--revoke')).toEqual({
      code: 0,
      output: `${role.name} may no longer emit the topics of payouts, nor read all tables.\n`,
    });
    expect(await may()).toEqual([]);
    await expect(as(role, `select postbud_emit('payment.captured', '{}')`)).rejects.toMatchObject({
      code: '42501',
    });
    await expect(as(role, 'select from events')).rejects.toMatchObject({ code: '42501' });
    await role.drop();
  });

  test.for<readonly [what: string, args: readonly string[], code: number, said: string]>([
    ['an unknown role', ['--role', 'nobody_at_all', '--read'], 2, "Unknown role 'nobody_at_all'."],
    ['an unknown producer', ['--role', 'x', '--producer', 'bookngs'], 2, "Did you mean 'bookings'?"],
    ['a right without a role', ['--read'], 2, '--role is missing.'],
    ['a role without a right', ['--role', 'x'], 2, 'Nothing to grant to x.'],
    ['two rights at once', ['--role', 'x', '--relay', '--read'], 2, 'granted one at a time'],
    ['the owner of the tables', ['--role', 'postgres', '--read'], 1, 'a grant would limit nothing'],
    ['what was never granted', ['--role', 'x', '--revoke'], 2, "Unknown role 'x'."],
  ])('refuses %s with a clear word', async ([, args, code, said], { bus }) => {
    expect(await grant(bus.url, ...args)).toEqual({ code, output: expect.stringContaining(said) });
  });

  test('refuses a producer that may create functions where the relays look for theirs', async ({ bus }) => {
    const role = await createRole(bus.url, 'tenants');
    await rows(bus.db, `grant create on schema public to ${role.name}`);
    expect(await grant(bus.url, '--role', role.name, '--producer', 'tenants')).toEqual({
      code: 1,
      output: expect.stringContaining(`revoke create on schema public from public, "${role.name}"`),
    });
    await role.drop();
  });

  test('names the rights on tables that earlier releases asked for, with which the role goes on', async ({
    bus,
  }) => {
    const role = await createRole(bus.url, 'earlier');
    await rows(bus.db, `grant insert on events, awaiting to ${role.name}`);
    const { output } = await grant(bus.url, '--role', role.name, '--producer', 'tenants');
    expect(output).toContain(`revoke all on awaiting, events from "${role.name}"`);
    expect((await grant(bus.url)).output).toMatch(
      new RegExp(`${role.name} +write to awaiting, events +granted by hand`),
    );
    await as(role, 'select postbud_emit($1, $2)', ['payment.captured', payment(1)]);
    await role.drop();
  });
});

/** A check constraint's. */
const OUT_OF_RANGE = { code: '23514' };

describe('an instant that JavaScript has no date for', () => {
  test.for(['-infinity', 'infinity', '0044-03-15 BC', '294276-12-31'])(
    'is in no event, whoever writes it: %s',
    async (instant, { bus }) => {
      await emitAlone(bus.db, 'payment.captured', payment(1));
      await expect(rows(bus.db, 'update events set created_at = $1', [instant])).rejects.toMatchObject(
        OUT_OF_RANGE,
      );
      await expect(rows(bus.db, 'update awaiting set created_at = $1', [instant])).rejects.toMatchObject(
        OUT_OF_RANGE,
      );
    },
  );
});
