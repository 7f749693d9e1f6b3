import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

import pg from 'pg';
import { describe, expect } from 'vitest';

import { codeOf } from '../../dev/build/package/code.ts';
import type * as Emit from '../../lib/bus/outbox/emit.ts';
import { publishCatalog } from '../../lib/bus/migrations/publish-catalog.ts';
import { driverOf } from '../../lib/platform/db/statement.ts';
import { changing, ROOT } from '../chaos/build.ts';
import { NEXT_CATALOG } from '../chaos/releases.ts';
import type { Release } from '../chaos/releases.ts';
import { temporaryFolder } from '../chaos/temporary-folder.ts';
import { test as base } from '../support/bus-test.ts';
import { payloadOf, rows } from '../support/bus.ts';
import { deliveriesOf } from '../support/records.ts';
import { openRelease } from '../support/releases.ts';
import type { RunningRelease } from '../support/releases.ts';

/** Emits through the package as a release builds it, in a transaction of `pg`. */
type EmitOf = (topic: string, payload?: object) => Promise<string>;

/** The package of a release, as a component has it that was built then. */
async function packageOf(release: Release, url: string) {
  const folder = await temporaryFolder('package');
  const files = ['lib/bus/outbox/emit.ts', 'lib/bus/catalog/catalog.ts'];
  const changes = release === 'next' ? NEXT_CATALOG : [];
  const code = await codeOf(pathToFileURL(`${ROOT}/`), files, ['zod'], [changing(changes)]);
  for (const { path, code: text } of code) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  const { emit } = (await import(pathToFileURL(join(folder, 'lib/bus/outbox/emit.js')).href)) as typeof Emit;
  const client = new pg.Client(url);
  await client.connect();
  return {
    async emit(topic: string, payload: object = payloadOf(topic as 'payment.failed')) {
      await client.query('begin');
      try {
        return (await emit(client, topic as 'payment.failed', payload as never)).id;
      } finally {
        await client.query('commit');
      }
    },
    async close() {
      await client.end();
      rmSync(folder, { recursive: true });
    },
  };
}

/** Of each release the package that components have, and a bus, all on one database. */
const test = base
  .extend('emitWith', { scope: 'file' }, async ({ database }, { onCleanup }) => {
    const present = await packageOf('present', database.url);
    const next = await packageOf('next', database.url);
    onCleanup(async () => {
      await present.close();
      await next.close();
    });
    return { present: present.emit, next: next.emit } satisfies Record<Release, EmitOf>;
  })
  .extend('buses', { scope: 'file' }, async ({ database }, { onCleanup }) => {
    const present = await openRelease('present', database.url);
    const next = await openRelease('next', database.url);
    onCleanup(async () => {
      await present.close();
      await next.close();
    });
    return { present, next } satisfies Record<Release, RunningRelease>;
  });

describe('a package of another release than the bus', () => {
  test.beforeEach(async ({ buses, bus }) => {
    // A rollout migrates first; the relays of the earlier release go on.
    await buses.next.bus.publishCatalog(driverOf(bus.db));
  });
  test.afterAll(({ database }) => publishCatalog(driverOf(database.db)));

  test('an older payload is handed over by a newer bus, in the version in which it was emitted', async ({
    emitWith,
    buses,
  }) => {
    await emitWith.present('booking.rescheduled');
    const versions: number[] = [];
    await buses.next.drain({ calendar: ({ version }) => versions.push(version) });
    expect(versions).toEqual([1]);
  });

  test('a newer payload waits at an older bus without using up an attempt, and a newer bus hands it over', async ({
    bus,
    emitWith,
    buses,
  }) => {
    await emitWith.next('booking.rescheduled');
    const versions: number[] = [];
    const calendar = ({ version }: { version: number }) => versions.push(version);
    await buses.present.drain({ calendar });
    expect(versions).toEqual([]);
    expect(await deliveriesOf(bus.db, 'calendar')).toMatchObject([{ state: 'pending', attempts: 0 }]);
    await buses.next.drain({ calendar });
    expect(versions).toEqual([2]);
  });

  test.for(['present', 'next'] as const)(
    'an event is for the subscribers of the catalog that was published last, not of the package’s own: %s',
    async (release, { bus, emitWith, buses }) => {
      await emitWith[release]('payment.failed');
      const handed: string[] = [];
      const all = { bookings: () => handed.push('bookings'), calendar: () => handed.push('calendar') };
      await buses.present.drain(all);
      expect(handed).toEqual(['bookings']);
      expect(await deliveriesOf(bus.db, 'calendar')).toMatchObject([{ state: 'pending', attempts: 0 }]);
      await buses.next.drain(all);
      expect(handed).toEqual(['bookings', 'calendar']);
    },
  );

  test('a topic that the relays do not know is kept until one knows it', async ({ bus, emitWith, buses }) => {
    const id = await emitWith.next('payment.settled', { intentId: 'pi_1' });
    const handed: string[] = [];
    const bookings = (event: { id: string }) => handed.push(event.id);
    await buses.present.drain({ bookings });
    expect(await deliveriesOf(bus.db, 'bookings')).toMatchObject([{ state: 'pending', attempts: 0 }]);
    await buses.next.drain({ bookings });
    expect(handed).toEqual([id]);
  });

  test('a topic that the package does not know is refused before anything is sent', async ({
    bus,
    emitWith,
  }) => {
    await expect(emitWith.present('payment.settled', { intentId: 'pi_1' })).rejects.toMatchObject({
      code: 'unknown_topic',
      message: 'unknown topic "payment.settled": did you mean payment.failed?',
    });
    expect(await deliveriesOf(bus.db)).toEqual([]);
  });
});

describe('a package that is newer than the database', () => {
  test('is told to migrate first: nothing of an event is changed to fit', async ({ bus, emitWith }) => {
    await publishCatalog(driverOf(bus.db));
    await expect(emitWith.next('payment.settled', { intentId: 'pi_1' })).rejects.toMatchObject({
      code: 'unknown_topic',
    });
    await expect(emitWith.next('booking.rescheduled')).rejects.toMatchObject({
      code: 'unknown_topic',
      message:
        'unknown version 2 of booking.rescheduled: this database has version 1: run npm run migrate of the release that has version 2 first',
    });
    expect(await rows(bus.db, 'select from events')).toEqual([]);
  });
});
