import { expect } from 'vitest';

import { test } from '../support/bus-test.ts';
import { NEXT_TURN, SchemaFolder, migrateToNextRelease } from '../support/next-release.ts';
import { openRelease } from '../support/releases.ts';

let folder: SchemaFolder;

test.beforeEach(async () => {
  folder = await SchemaFolder.open();
  return () => folder.remove();
});

test('changed tables become a migration, both releases deliver from one database, and the one after them drops the older turn', async ({
  bus,
}) => {
  expect(await migrateToNextRelease(bus.db, folder)).toEqual([
    'ALTER TABLE "last_pass" ADD COLUMN "note" text;',
  ]);
  expect(await folder.writeMigration('again')).toEqual([]);
  const releases = [await openRelease('present', bus.url), await openRelease('next', bus.url, NEXT_TURN)];
  const [present, next] = releases as [(typeof releases)[0], (typeof releases)[0]];
  try {
    const handed: string[] = [];
    const drain = (release: typeof present) =>
      release.drain({ bookings: ({ id }) => handed.push(`${release.name} ${id}`) });
    const one = await present.emit('payment.failed', 1);
    await drain(next);
    const two = await next.emit('payment.failed', 2);
    await drain(present);
    expect(handed).toEqual([`next ${one}`, `present ${two}`]);
    await folder.delete('functions/postbud_turn_5.sql');
    await folder.migrate(bus.db);
    const three = await next.emit('payment.failed', 3);
    await drain(next);
    expect(handed.at(-1)).toBe(`next ${three}`);
    await expect(drain(present)).rejects.toThrow('postbud_turn_5');
  } finally {
    for (const release of releases) await release.close();
  }
});
