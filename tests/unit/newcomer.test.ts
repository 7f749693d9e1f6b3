import { execFileSync, spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';

const root = new URL('../../', import.meta.url).pathname;
const tracked = execFileSync('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
  cwd: root,
  encoding: 'utf8',
})
  .split('\n')
  .filter((file) => existsSync(join(root, file)) && file !== '' && !/^(tests|bench)\//.test(file));
const copy = mkdtempSync(join(tmpdir(), 'newcomer-'));
// With what the configuration runs before each file.
for (const file of [...tracked, 'tests/support/own-modules.ts']) {
  mkdirSync(dirname(join(copy, file)), { recursive: true });
  cpSync(join(root, file), join(copy, file), { preserveTimestamps: true });
}
symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
// Where the tests of a newcomer go.
mkdirSync(join(copy, 'tests/unit'), { recursive: true });
afterAll(() => rmSync(copy, { recursive: true }));

/** The files that a newcomer has changed or added, with the text that they had before; null for a new one. */
const changed = new Map<string, string | null>();
beforeEach(() => {
  for (const [file, before] of changed) {
    if (before === null) rmSync(join(copy, file));
    else writeFileSync(join(copy, file), before);
  }
  changed.clear();
});

function write(file: string, text: string): void {
  const path = join(copy, file);
  if (!changed.has(file)) changed.set(file, existsSync(path) ? readFileSync(path, 'utf8') : null);
  writeFileSync(path, text);
}

function edit(file: string, before: string | RegExp, after: string): void {
  const text = readFileSync(join(copy, file), 'utf8');
  expect(text).toMatch(before);
  write(file, text.replace(before, after));
}

/** Compiles the copy. @returns the places of the errors, and their texts. */
function compile(): string[] {
  const tsc = join(root, 'node_modules/typescript/bin/tsc');
  const { stdout } = spawnSync(process.execPath, [tsc, '--pretty', 'false'], { cwd: copy, encoding: 'utf8' });
  return stdout.split('\n').filter((line) => line.includes('error TS'));
}

function run(...args: string[]): string {
  const { stdout, stderr } = spawnSync(process.execPath, args, {
    cwd: copy,
    encoding: 'utf8',
    env: { PATH: process.env['PATH'] },
  });
  expect(stderr).toBe('');
  return stdout;
}

const ROWS = 'lib/bus/catalog/calendar.ts';
const REGISTRY = 'lib/components/registry.ts';

/** A row at the end of its area's file. */
const row = ({ subscribers = `['audit']`, example = `{ feedId: 'feed_7', entries: 12 }` } = {}) => `
  'calendar.feed.refreshed': topic({
    producer: 'calendar',
    subscribers: ${subscribers},
    description: 'A feed of an outside calendar was read again.',
    version: 1,
    payload: z.object({ feedId: id, entries: count }),
    example: ${example},
  }),
};
`;

const addTopic = (options?: Parameters<typeof row>[0]) => edit(ROWS, /\};\n$/, row(options));

const addSubscriber = (name: string, topic: string) =>
  write(
    `lib/components/${name}.ts`,
    `import { subscriber } from '../bus/subscribers/subscriber.ts';

export const ${name} = subscriber('${name}', {
  '${topic}': async ({ payload }) => void payload,
});
`,
  );

/** Imports the component, and gives it its place: that of the one elsewhere, or a new one. */
const register = (name: string) => {
  edit(REGISTRY, /import type \{ AttachedSubscriber \}/, `import { ${name} } from './${name}.ts';\n$&`);
  const isListed = readFileSync(join(copy, REGISTRY), 'utf8').includes(`  ${name}: 'elsewhere',`);
  const last = `  tenants: 'elsewhere',\n`;
  edit(
    REGISTRY,
    isListed ? `  ${name}: 'elsewhere',\n` : last,
    `${isListed ? '' : last}  ${name}: () => ${name},\n`,
  );
};

/** Names who is attached in a deployment of the copy, with the topics that each handles. */
function attached(): Record<string, string[]> {
  const program = `
    import { subscribersOf } from './lib/components/registry.ts';
    const attached = subscribersOf({ remoteSubscribers: [], database: { kind: 'none' } });
    console.log(JSON.stringify(Object.fromEntries(attached.map(({ name, handlers }) => [name, [...handlers.keys()]]))));`;
  const printed: unknown = JSON.parse(run('--import', 'tsx', '--input-type=module', '--eval', program));
  return z.record(z.string(), z.array(z.string())).parse(printed);
}

test('a topic takes one file, and the catalog shows it', () => {
  addTopic();
  expect([...changed.keys()]).toEqual([ROWS]);
  expect(compile()).toEqual([]);
  const shown: unknown = JSON.parse(run('cli/postbud.mjs', 'catalog', 'calendar.feed.refreshed', '--json'));
  expect(shown).toMatchObject({ subscribers: ['audit'], example: { feedId: 'feed_7', entries: 12 } });
});

test('a subscriber takes two files, besides the rows of topics that do not list it yet', () => {
  expect(attached()).not.toHaveProperty('reviews');
  addSubscriber('reviews', 'booking.completed');
  register('reviews');
  expect([...changed.keys()]).toEqual(['lib/components/reviews.ts', REGISTRY]);
  addTopic({ subscribers: `['audit', 'weather']` });
  addSubscriber('weather', 'calendar.feed.refreshed');
  register('weather');
  expect([...changed.keys()].slice(2)).toEqual([ROWS, 'lib/components/weather.ts']);
  expect(compile()).toEqual([]);
  expect(attached()).toMatchObject({ reviews: ['booking.completed'], weather: ['calendar.feed.refreshed'] });
});

test('the compiler refuses a row, a listing and a handler that do not fit', () => {
  addTopic({ subscribers: `['audit', 'wether']`, example: `{ feedId: 'feed_7', entries: 'twelve' }` });
  addSubscriber('reviews', 'calendar.feed.refreshed');
  register('reviews');
  const errors = compile();
  expect(errors).toContainEqual(
    expect.stringMatching(/^lib\/bus\/catalog\/calendar\.ts.*'string' is not assignable to type 'number'/),
  );
  expect(errors).toContainEqual(expect.stringMatching(/^lib\/components\/registry\.ts.*'wether' is missing/));
  expect(errors).toContainEqual(
    expect.stringMatching(/^lib\/components\/reviews\.ts.*'calendar\.feed\.refreshed'' does not exist/),
  );
});

describe("the README's test of a handler", () => {
  const [, written = ''] =
    /```ts\n([^]*?testBus[^]*?)```/.exec(readFileSync(join(root, 'README.md'), 'utf8')) ?? [];
  const withNode = `import assert from 'node:assert/strict';\n${written}`
    .replace(`{ expect, test } from 'vitest'`, `{ test } from 'node:test'`)
    .replace(/expect\((.*)\)\.toMatchObject\(.*\)/, 'assert.deepEqual(($1).errors, [])')
    .replace(/expect\((.*)\)\.toHaveLength\(1\)/, 'assert.equal(($1).length, 1)');
  beforeEach(() => {
    write('tests/unit/sign-up.test.ts', written);
    write('tests/unit/sign-up-node.ts', withNode);
  });

  test('has five lines and compiles as it stands', () => {
    const body = written.slice(written.indexOf('test('), written.lastIndexOf('});'));
    expect(body.trim().split('\n')).toHaveLength(5);
    expect(compile()).toEqual([]);
  });

  test('passes as it stands', () => {
    const vitest = join(root, 'node_modules/vitest/vitest.mjs');
    const printed = run(vitest, 'run', '--project', 'unit', 'tests/unit/sign-up.test.ts');
    expect(printed).toMatch(/Tests .*1 passed/);
  });

  test('passes with node:test in the place of vitest', () => {
    expect(run('--import', 'tsx', '--test', 'tests/unit/sign-up-node.ts')).toMatch(/pass 1/);
  });
});
