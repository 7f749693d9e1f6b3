import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';

import type pg from 'pg';
import { describe, expect } from 'vitest';

import { catalog, topics } from '../../lib/bus/catalog/catalog.ts';
import type { TopicName } from '../../lib/bus/catalog/catalog.ts';
import { migrate } from '../../lib/bus/migrations/migrate.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { run } from '../../lib/platform/db/statement.ts';
import { test as busTest } from '../support/bus-test.ts';
import { drain, idsInOrder, openTransaction, payloadOf, payment, rows, emitAlone } from '../support/bus.ts';
import { awaitingPlace } from '../support/records.ts';
import { programPath } from '../support/programs.ts';
import { createRole, grant } from '../support/roles.ts';

/** `postbud_emit`, the function for producers in other languages. */
const test = busTest.extend('emitBySql', ({ bus }) => sqlEmitter(bus.db));

interface Keys {
  readonly orderingKey?: string;
  readonly dedupeKey?: string;
}

function sqlEmitter(db: Database) {
  return async (topic: string, payload: unknown, { orderingKey, dedupeKey }: Keys = {}) => {
    const [row] = await rows<{ id: string }>(
      db,
      'select postbud_emit($1::text, $2::text::jsonb, $3::text, $4::text)::text as id',
      [topic, JSON.stringify(payload), orderingKey ?? null, dedupeKey ?? null],
    );
    return row!.id;
  };
}

/** What `postbud_emit` finds wrong with each payload. */
async function issuesBySql(db: Database, topic: TopicName, payloads: readonly unknown[]) {
  const found = await rows<{ place: number; path: string; message: string }>(
    db,
    `select place, path, problem as message
     from catalog_topics,
       postbud_parse_2(schemas -> version::text, array(select jsonb_array_elements($2::text::jsonb))),
       unnest(places, paths, problems) as issues(place, path, problem)
     where topic = $1::text`,
    [topic, JSON.stringify(payloads)],
  );
  return payloads.map((_, index) =>
    found.filter(({ place }) => place === index + 1).map(({ path, message }) => ({ path, message })),
  );
}

describe('an event emitted by SQL', () => {
  test('is stored as emit stores it, whatever its topic', async ({ bus, emitBySql }) => {
    for (const [topic, row] of topics()) {
      const payload = { ...(row.example as object), unknownField: 'left out' };
      await emitAlone(bus.db, topic, payload as never);
      await emitBySql(topic, payload);
    }
    const stored = await rows<{ topic: string; twins: unknown[] }>(
      bus.db,
      `select events.topic, json_agg(json_build_object(
           'row', to_jsonb(events) - array['id', 'seq', 'created_at', 'correlation_id'],
           'starts its own correlation', correlation_id = events.id::text,
           'version of its id', substr(events.id::text, 15, 1),
           'marker', to_jsonb(marker) - array['event_id', 'seq', 'created_at', 'bytes', 'number'],
           'marker has its place', marker.created_at = events.created_at and marker.seq = events.seq,
           'its id says when', abs(extract(epoch from events.created_at)
             - ('x' || substr(replace(events.id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0) < 60)
         order by events.seq) as twins
       from events join awaiting as marker on event_id = events.id
       group by events.topic`,
    );
    expect(stored).toHaveLength(topics().length);
    for (const { topic, twins } of stored) {
      expect(twins, topic).toHaveLength(2);
      expect(twins[1], topic).toEqual(twins[0]);
      expect(twins[0]).toMatchObject({ 'marker has its place': true, 'its id says when': true });
      expect(twins[0]).toMatchObject({ 'version of its id': '7', 'starts its own correlation': true });
    }
  });

  test('has its instants at +00:00 stored in UTC, as emit does, wherever in a payload they are', async ({
    bus,
    emitBySql,
  }) => {
    const elsewhere = (payload: unknown) =>
      JSON.parse(JSON.stringify(payload).replaceAll(/(T[\d:.]+)Z"/g, '$1+00:00"')) as never;
    const sent = topics().filter(
      // A provider's body is kept as it came.
      ([topic, { example }]) =>
        !topic.startsWith('webhook.') && JSON.stringify(example) !== JSON.stringify(elsewhere(example)),
    );
    expect(sent.length).toBeGreaterThan(50);
    for (const [topic, { example }] of sent) {
      await emitAlone(bus.db, topic, elsewhere(example));
      await emitBySql(topic, elsewhere(example));
      const stored = await rows<{ payload: unknown }>(bus.db, 'select payload from events where topic = $1', [
        topic,
      ]);
      expect(stored, topic).toEqual([{ payload: example }, { payload: example }]);
    }
  });

  test('is delivered, in one order with those of emit', async ({ bus, emitBySql, ledger, handed }) => {
    for (let number = 1; number <= 20; number += 2) {
      await emitAlone(bus.db, 'payment.captured', payment(number));
      await emitBySql('payment.captured', payment(number + 1));
    }
    await drain(bus.db, [ledger()]);
    expect(handed).toEqual(Array.from({ length: 20 }, (_, index) => index + 1));
  });

  test('is gone with its transaction', async ({ bus }) => {
    const { client, rollback } = await openTransaction(bus.url);
    await client.query('select postbud_emit($1, $2)', ['payment.captured', payment(1)]);
    await rollback();
    expect(await rows(bus.db, 'select from events')).toHaveLength(0);
    expect(await awaitingPlace(bus.db)).toHaveLength(0);
  });

  test('holds back later events of its topic until its transaction ends', async ({ bus, ledger, handed }) => {
    const { client, commit } = await openTransaction(bus.url);
    await client.query('select postbud_emit($1, $2)', ['payment.captured', payment(1)]);
    await emitAlone(bus.db, 'payment.captured', payment(2));
    await drain(bus.db, [ledger()]);
    expect(handed).toEqual([]);
    await commit();
    await drain(bus.db, [ledger()]);
    expect(handed).toEqual([1, 2]);
  });

  test('is checked in a time that grows with its lists, not with their square', async ({ bus }) => {
    const lines = Array.from({ length: 8000 }, (_, index) => ({
      ...payloadOf('ledger.entry.posted').lines[index % 2]!,
      unknownField: 'left out',
    }));
    const payload = JSON.stringify({ ...payloadOf('ledger.entry.posted'), lines });
    const { client, commit } = await openTransaction(bus.url);
    // It takes 0.1 s; where each item copied the list, it was 12.
    await client.query(`set local statement_timeout = '5s'`);
    await client.query('select postbud_emit($1, $2)', ['ledger.entry.posted', payload]);
    await commit();
    expect(
      await rows(
        bus.db,
        `select jsonb_array_length(payload -> 'lines') as lines, payload #> '{lines,7999}' as last from events`,
      ),
    ).toEqual([{ lines: 8000, last: payloadOf('ledger.entry.posted').lines[1] }]);
  });

  test('keeps the topic’s ordering key unless another is given', async ({ bus, emitBySql }) => {
    const example = payloadOf('booking.rescheduled', { bookingId: 'bkg_7' });
    const own = await emitBySql('booking.rescheduled', example);
    const other = await emitBySql('booking.rescheduled', example, { orderingKey: 'another' });
    expect(await idsInOrder(bus.db, 'booking.rescheduled', 'bkg_7')).toEqual([own]);
    expect(await idsInOrder(bus.db, 'booking.rescheduled', 'another')).toEqual([other]);
  });

  test('is recorded once under a dedupe key, also one that emit used', async ({ bus, emitBySql }) => {
    const { id } = await emitAlone(bus.db, 'payment.captured', payment(1), { dedupeKey: 'capture 1' });
    expect(await emitBySql('payment.captured', payment(1), { dedupeKey: 'capture 1' })).toBe(id);
    const second = await emitBySql('payment.captured', payment(2), { dedupeKey: 'capture 2' });
    expect(await emitAlone(bus.db, 'payment.captured', payment(2), { dedupeKey: 'capture 2' })).toEqual({
      id: second,
    });
    expect(await awaitingPlace(bus.db)).toHaveLength(2);
  });

  test('is recorded whatever tables the producer has of the same names', async ({ bus }) => {
    const { client, commit } = await openTransaction(bus.url);
    await client.query('create schema bookings create table events (id int)');
    await client.query('set local search_path = bookings');
    await client.query('select public.postbud_emit($1, $2)', ['payment.captured', payment(1)]);
    await commit();
    expect(await rows(bus.db, 'select from public.events')).toHaveLength(1);
  });
});

/** Spoils a payload in one place after the other: a field that is missing, or has a value of another type. */
function spoilt(value: unknown): unknown[] {
  if (typeof value !== 'object' || value === null) return [];
  if (Array.isArray(value)) {
    return [[], ...value.flatMap((item, index) => spoilt(item).map((bad) => value.with(index, bad)))];
  }
  const fields = Object.entries(value);
  return fields.flatMap(([name, inner]) => {
    const { [name]: _, ...rest } = value as Record<string, unknown>;
    const values = [null, true, 'x', '', -1, 0.5, 1e16, 'x'.repeat(10_001), '🙂'.repeat(130), [], {}, [null]];
    return [rest, ...[...values, ...spoilt(inner)].map((bad) => ({ ...value, [name]: bad }))];
  });
}

describe('a payload that does not fit', () => {
  test.for(topics().map(([topic]) => topic))(
    'is refused by SQL for the same fields as by emit: %s',
    async (topic, { bus }) => {
      const { example, payload: schema } = catalog[topic];
      const payloads = [...spoilt(example), [], 'text', 7, null];
      const bySql = await issuesBySql(bus.db, topic, payloads);
      for (const [index, payload] of payloads.entries()) {
        const paths = schema.safeParse(payload).error?.issues.map(({ path }) => path.join('.')) ?? [];
        const shown = JSON.stringify(payload);
        expect(bySql[index]!.map(({ path }) => path).toSorted(), shown).toEqual(
          [...new Set(paths)].toSorted(),
        );
      }
    },
  );

  test.for<readonly [unknown, string]>([
    [{ amountMinor: '7' }, 'amountMinor: expected an integer, not a string'],
    [{ amountMinor: 0.5 }, 'amountMinor: expected an integer, not a number'],
    [{ amountMinor: -1 }, 'amountMinor: expected at least 0'],
    [{ amountMinor: null }, 'amountMinor: expected an integer, not null'],
    [{ bookingId: undefined }, 'bookingId: is missing'],
    [{ bookingId: '' }, 'bookingId: expected at least 1 characters'],
    [{ provider: 'cash' }, 'provider: expected one of "cardpayments", "walletpayments"'],
    [{ currency: 'kr' }, 'currency: expected three capital letters of ISO 4217, for example NOK'],
    [
      { currency: 7, intentId: [] },
      'intentId: expected a string, not an array; currency: expected a string, not a number',
    ],
  ])('is refused with the path of the wrong field: %j', async ([fields, expected], { bus, emitBySql }) => {
    const payload = { ...payloadOf('payment.captured'), ...(fields as object) };
    const message = `the payload does not match payment.captured: `;
    const error = await emitBySql('payment.captured', payload).catch((caught: pg.DatabaseError) => caught);
    expect(error).toMatchObject({ code: 'PB002', message: expect.stringContaining(message) });
    const said = (error as Error).message.slice(message.length).split('; ');
    expect(said.toSorted()).toEqual(expected.split('; ').toSorted());
    expect(await rows(bus.db, 'select from events')).toHaveLength(0);
  });

  test('is named by path inside lists', async ({ bus }) => {
    const topic = 'season.allocation.computed';
    const listed = topics().find(([, { example }]) => Object.values(example as object).some(isListOfObjects));
    const [name, { example }] = listed ?? [topic, { example: {} }];
    const [field, list] = Object.entries(example as object).find(([, value]) => isListOfObjects(value))!;
    const payload = { ...(example as object), [field]: [...list, 7] };
    const [issues] = await issuesBySql(bus.db, name, [payload]);
    expect(issues).toEqual([
      { path: `${field}.${list.length}`, message: 'expected an object, not a number' },
    ]);
  });

  test('is refused with its first 20 mistakes and the number of the others, by SQL as by emit', async ({
    bus,
    emitBySql,
  }) => {
    const lines = Array.from({ length: 8000 }, () => ({ account: 'x', side: 'debit', amountMinor: 1 }));
    const payload = { ...payloadOf('ledger.entry.posted'), lines };
    const mistake = (place: number) => `lines.${place}.account: expected an account of four digits`;
    const message = [
      `the payload does not match ledger.entry.posted: ${mistake(0)}`,
      ...Array.from({ length: 19 }, (_, index) => mistake(index + 1)),
      '… and 7,980 more',
    ].join('; ');
    const bySql = await emitBySql('ledger.entry.posted', payload).catch((error: pg.DatabaseError) => error);
    expect(bySql).toMatchObject({ code: 'PB002', message });
    expect(JSON.parse((bySql as pg.DatabaseError).detail!)).toHaveLength(20);
    await expect(emitAlone(bus.db, 'ledger.entry.posted', payload as never)).rejects.toMatchObject({
      message,
      issues: expect.objectContaining({ length: 20 }),
    });
  });

  test.for([
    ['season.application.submitted', 'hoursPerWeek', 'wishes.0.hoursPerWeek', 'wishes.0.hoursPerWeek'],
    ['webhook.cardpayments.received', 'amount_received', 'body', 'body.data.object.amount_received'],
  ] as const)(
    'is refused with a number beyond a double, by SQL as by emit: %s',
    async ([topic, field, pathBySql, path], { bus }) => {
      const withNumber = (number: string) =>
        JSON.stringify(catalog[topic].example).replace(new RegExp(`(?<="${field}":)[\\d.]+`), number);
      const emitText = (text: string) =>
        rows(bus.db, 'select postbud_emit($1, $2::text::jsonb)', [topic, text]);
      const message = 'numbers beyond a double cannot be stored';
      for (const beyond of ['1e400', '1.8e308', '179769313486231590'.padEnd(309, '0')]) {
        await expect(emitText(withNumber(beyond))).rejects.toThrow(`${pathBySql}: ${message}`);
        const payload = JSON.parse(withNumber(beyond)) as never;
        await expect(emitAlone(bus.db, topic, payload)).rejects.toMatchObject({
          issues: [expect.objectContaining({ path })],
        });
      }
      await emitText(withNumber('1.7976931348623157e308'));
      expect(await rows(bus.db, 'select from events')).toHaveLength(1);
    },
  );

  test('is refused when there is none, or not an object', async ({ bus, emitBySql }) => {
    await expect(emitBySql('payment.captured', null)).rejects.toThrow('expected an object, not null');
    await expect(rows(bus.db, `select postbud_emit('payment.captured', null)`)).rejects.toThrow(
      'the payload does not match payment.captured: expected an object, not null',
    );
  });

  test('is refused without a repetition of what it holds', async ({ emitBySql }) => {
    const error = await emitBySql('booking.created', {
      ...payloadOf('booking.created'),
      email: 'kari lunde at example.no',
    }).catch((caught: pg.DatabaseError) => caught);
    expect(error).toMatchObject({ code: 'PB002' });
    expect(JSON.stringify(error) + String(error)).not.toContain('kari lunde');
  });

  test('is refused with a key of more than 255 characters', async ({ emitBySql }) => {
    const long = 'x'.repeat(256);
    await expect(emitBySql('payment.captured', payment(1), { dedupeKey: long })).rejects.toThrow(
      'dedupe_key: expected at most 255 characters',
    );
    await expect(emitBySql('payment.captured', payment(1), { orderingKey: long })).rejects.toThrow(
      'ordering_key: expected at most 255 characters',
    );
  });
});

function isListOfObjects(value: unknown): value is object[] {
  return Array.isArray(value) && typeof value[0] === 'object';
}

describe('a topic', () => {
  test.for<readonly [string, string]>([
    ['payment.capture', 'did you mean payment.captured?'],
    ['Payment.Captured', 'did you mean payment.captured?'],
    ['bookng.created', 'did you mean booking.created?'],
    ['nonsense', 'npx postbud catalog lists the topics'],
    ['x'.repeat(5000), 'npx postbud catalog lists the topics'],
  ])('that the catalog lacks is refused with the nearest name: %s', async ([topic, hint], { emitBySql }) => {
    await expect(emitBySql(topic, {})).rejects.toMatchObject({
      code: 'PB001',
      message: `unknown topic "${topic}"`,
      hint,
    });
  });

  test('that is null is refused', async ({ bus }) => {
    await expect(rows(bus.db, `select postbud_emit(null, '{}')`)).rejects.toThrow('unknown topic null');
  });
});

describe('the published catalog', () => {
  const publishedAs = async (db: Database, change: string) => await run(db, { text: change, values: [] });

  test('is of the release that migrated last', async ({ bus, emitBySql }) => {
    await publishedAs(
      bus.db,
      `update catalog_topics set subscribers = '{audit}' where topic = 'payment.captured'`,
    );
    await publishedAs(bus.db, `delete from catalog_topics where topic = 'payment.refunded'`);
    await publishedAs(
      bus.db,
      `insert into catalog_topics select 'payment.recaptured', producer, subscribers, version, ordered_by, schemas
       from catalog_topics where topic = 'payment.captured'`,
    );
    await migrate(bus.db);
    await expect(emitBySql('payment.recaptured', payment(1))).rejects.toThrow('unknown topic');
    await emitBySql('payment.refunded', catalog['payment.refunded'].example);
    await emitBySql('payment.captured', payment(1));
    expect(await rows(bus.db, `select subscribers from events where topic = 'payment.captured'`)).toEqual([
      { subscribers: [...catalog['payment.captured'].subscribers] },
    ]);
  });

  test('lets producers write the version of a payload that an earlier catalog had', async ({
    bus,
    emitBySql,
  }) => {
    // The next release's payload has one field more, which it requires.
    await publishedAs(
      bus.db,
      `update catalog_topics set version = 2, schemas = schemas || jsonb_build_object('2', jsonb_set(
         jsonb_set(schemas -> '1', '{required}', (schemas #> '{1,required}') || '"feeMinor"'),
         '{properties,feeMinor}', '{ "type": "integer" }'))
       where topic = 'payment.captured'`,
    );
    await emitBySql('payment.captured', payment(1));
    await emitBySql('payment.captured', { ...payment(2), feeMinor: 3 });
    expect(
      await rows(bus.db, `select version, payload ? 'feeMinor' as has_fee from events order by seq`),
    ).toEqual([
      { version: 1, has_fee: false },
      { version: 2, has_fee: true },
    ]);
    await expect(emitBySql('payment.captured', { ...payment(3), currency: 7 })).rejects.toThrow(
      'feeMinor: is missing',
    );
    // The earlier release is deployed again: it knows nothing of the newer payload.
    await migrate(bus.db);
    await emitBySql('payment.captured', { ...payment(4), feeMinor: 3 });
    expect(await rows(bus.db, 'select version from events order by seq desc limit 1')).toEqual([
      { version: 1 },
    ]);
  });

  test('says how to fill it where nothing was published', async ({ bus, emitBySql }) => {
    await publishedAs(bus.db, 'delete from catalog_topics');
    await expect(emitBySql('payment.captured', payment(1))).rejects.toMatchObject({
      hint: 'the catalog is empty: run npm run migrate',
    });
    await migrate(bus.db);
    await emitBySql('payment.captured', payment(1));
  });

  test('is published to the embedded database too', async ({ expect }) => {
    const { db, close } = await connect('memory://');
    await migrate(db);
    const id = await sqlEmitter(db)('payment.captured', payment(1));
    expect(await rows(db, 'select id::text from events')).toEqual([{ id }]);
    await close();
  });
});

const psql = programPath('psql');

/** Gives the text below a heading of a document, up to the next heading. */
function documentSection(path: string, heading: string): string {
  const text = readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
  return text.split(/^#+ /m).find((section) => section.startsWith(`${heading}\n`)) ?? '';
}

describe.skipIf(psql === undefined)('psql', () => {
  test('emits with the statements of docs/elsewhere.md, as a role that may do nothing else with the bus', async ({
    bus,
  }) => {
    const section = documentSection('docs/elsewhere.md', 'Emit from other languages');
    const [, emitting] = /```sql\n(.*?)```/s.exec(section) ?? [];
    const role = await createRole(bus.url, 'bookings');
    await grant(bus.url, '--role', role.name, '--producer', 'bookings');
    await rows(bus.db, 'create table bookings (id text, state text)');
    await rows(bus.db, `insert into bookings values ('bkg_48213', 'pending')`);
    await rows(bus.db, `grant select, update on bookings to ${role.name}`);
    const { stdout } = await promisify(execFile)(psql!, [
      role.url,
      '-v',
      'ON_ERROR_STOP=1',
      '-qAtc',
      emitting!,
    ]);
    expect(await rows(bus.db, 'select id::text, topic, producer from events')).toEqual([
      { id: stdout.trim(), topic: 'booking.approved', producer: 'bookings' },
    ]);
    expect(await rows(bus.db, 'select state from bookings')).toEqual([{ state: 'approved' }]);
    await rows(bus.db, 'drop table bookings');
    await role.drop();
  });

  test('shows the path of a wrong field', async ({ bus }) => {
    const failed = promisify(execFile)(psql!, [
      bus.url,
      '-c',
      `select postbud_emit('payment.captured', '{ "amountMinor": "7" }')`,
    ]);
    await expect(failed).rejects.toThrow(
      /ERROR: +the payload does not match payment.captured: .*amountMinor: expected an integer/,
    );
  });
});
