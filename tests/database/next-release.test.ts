import { readdirSync } from 'node:fs';

import { expect } from 'vitest';

import { test } from '../support/bus-test.ts';
import { NEXT_TURN, SchemaFolder, migrateToNextRelease } from '../support/next-release.ts';
import { openRelease } from '../support/releases.ts';

let folder: SchemaFolder;

const written = readdirSync(new URL('../../drizzle/migrations', import.meta.url)).filter((name) =>
  name.endsWith('.sql'),
).length;
/** The file of the next migration, or of one that many later. */
const fileOf = (name: string, later = 0) => `${`${written + later}`.padStart(4, '0')}_${name}.sql`;

test.beforeEach(async () => {
  folder = await SchemaFolder.open();
  return () => folder.remove();
});

test('changes become one migration, both releases deliver from one database, and the one after them drops the older turn', async ({
  bus,
}) => {
  expect(await migrateToNextRelease(bus.db, folder)).toBe(`Wrote migrations/${fileOf('tried_turns')}.`);
  const migration = await folder.migration(fileOf('tried_turns'));
  expect(migration.match(/^(?:alter|create|drop) .*?(?=[ (]|$)/gim)).toHaveLength(3);
  expect(migration).toMatch(/^ALTER TABLE "last_pass" ADD COLUMN "note" text;/);
  expect(migration.match(/^create or replace function \w+/gm)).toEqual([
    'create or replace function postbud_slot',
    'create or replace function postbud_turn_5',
  ]);
  expect(await folder.writeMigration('again')).toEqual({
    code: 0,
    said: 'Nothing has changed since the last migration.',
  });
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
    await folder.delete('functions/postbud_turn_4.sql');
    expect(await folder.writeMigration('only_tried_turns')).toMatchObject({
      said: `Wrote migrations/${fileOf('only_tried_turns', 1)}.`,
    });
    expect(await folder.migration(fileOf('only_tried_turns', 1))).toBe('drop function postbud_turn_4;\n');
    await folder.migrate(bus.db);
    const three = await next.emit('payment.failed', 3);
    await drain(next);
    expect(handed.at(-1)).toBe(`next ${three}`);
    await expect(drain(present)).rejects.toThrow('postbud_turn_4');
  } finally {
    for (const release of releases) await release.close();
  }
});

test.for([
  [
    'takes another argument under its name',
    (text: string) => text.replace('ordering_key text', 'ordering_key text, slots int'),
    'Keep its file as it was, and give the new one the next version, in a file of its own: postbud_slot_2.sql.',
  ],
  [
    'returns another type under its name',
    (text: string) => text.replace('returns smallint', 'returns int'),
    'Keep its file as it was, and give the new one the next version, in a file of its own: postbud_slot_2.sql.',
  ],
  [
    'has another name than its file',
    (text: string) => text.replace('postbud_slot', 'postbud_place'),
    'A file has one function, of its name: create or replace function postbud_slot.',
  ],
] as const)('a function that %s is refused, and nothing is written', async ([, change, says]) => {
  await folder.edit('functions/postbud_slot.sql', change);
  const { code, said } = await folder.writeMigration('slots');
  expect({ code, said }).toEqual({ code: 1, said: says });
  await expect(folder.migration(fileOf('slots'))).rejects.toThrow('ENOENT');
});

test('a function that another one calls cannot go', async () => {
  await folder.delete('functions/postbud_slot.sql');
  expect(await folder.writeMigration('without_slots')).toEqual({
    code: 1,
    said: 'postbud_backfill_1 calls postbud_slot, which has no file any more.',
  });
});
