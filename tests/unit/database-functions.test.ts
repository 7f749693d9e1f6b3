import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { ROOT } from '../chaos/build.ts';

const textsIn = (folder: string, end: string) =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith(end))
    .map((path) => ({ path, text: readFileSync(join(ROOT, folder, path), 'utf8') }));

const functions = textsIn('drizzle/functions', '.sql').map(({ path, text }) => ({
  name: path.replace('.sql', ''),
  text,
}));
const migrations = textsIn('drizzle/migrations', '.sql');
const triggers = migrations.flatMap(({ text }) => text.match(/execute function \w+/g) ?? []);

test('each file creates one function or view, of its name', () => {
  const created = functions.map(({ text }) =>
    Array.from(text.matchAll(/^create or replace (?:function|aggregate|view) (\w+)/gm), ([, name]) => name),
  );
  expect(created).toEqual(functions.map(({ name }) => [name]));
});

test('no migration creates a function', () => {
  const creating = migrations.filter(({ text }) =>
    /^\s*create (?:or replace )?(?:function|aggregate)/im.test(text),
  );
  expect(creating).toEqual([]);
});

test('each function that another one or a trigger calls has a file', () => {
  const code = functions.map(({ text }) => text.replaceAll(/--.*$/gm, ''));
  const called = [...code, ...triggers].flatMap(
    (text) => text.match(/\bpostbud_\w+(?=\()|(?<=execute function )\w+/g) ?? [],
  );
  const names = new Set(functions.map(({ name }) => name));
  expect([...new Set(called)].filter((name) => !names.has(name))).toEqual([]);
});

test('each of them is used by another one, by a trigger or by the code, or has been until this release', () => {
  const code = [...textsIn('lib', '.ts'), ...textsIn('cli', '.ts')].map(({ text }) => text);
  const uncalled = functions
    .map(({ name }) => name)
    .filter((name) => {
      const called = new RegExp(`\\b${name}\\b`);
      // The release before this one calls it while both run.
      const successor = name.replace(/\d+$/, (number) => `${Number(number) + 1}`);
      if (successor !== name && functions.some((other) => other.name === successor)) return false;
      const others = functions.filter((other) => other.name !== name).map(({ text }) => text);
      return ![...others, ...triggers, ...code].some((text) => called.test(text));
    });
  expect(uncalled).toEqual([]);
});
