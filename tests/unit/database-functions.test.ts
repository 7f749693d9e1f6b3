import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { functionsAfterMigrations, functionsInFiles } from '../../dev/database-functions.ts';
import { ROOT } from '../chaos/build.ts';

const folder = join(ROOT, 'drizzle');

test('the migrations make the functions as their files have them: else run npm run migration', () => {
  expect(functionsInFiles(folder)).toEqual(functionsAfterMigrations(folder));
});

test('each function is called by another one, by a trigger or by the code, or has been until this release', () => {
  const functions = [...functionsInFiles(folder)];
  const triggers = readFileSync(join(folder, 'migrations/0000_baseline.sql'), 'utf8').match(
    /execute function \w+/g,
  )!;
  const code = readdirSync(join(ROOT, 'lib'), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts'))
    .map((path) => readFileSync(join(ROOT, 'lib', path), 'utf8'));
  const uncalled = functions
    .map(([name]) => name)
    .filter((name) => {
      const called = new RegExp(`\\b${name}\\b`);
      // The release before this one calls it while both run.
      const successor = name.replace(/\d+$/, (number) => `${Number(number) + 1}`);
      if (successor !== name && functions.some(([other]) => other === successor)) return false;
      const others = functions.filter(([other]) => other !== name).map(([, text]) => text);
      return ![...others, ...triggers, ...code].some((text) => called.test(text));
    });
  expect(uncalled).toEqual([]);
});
