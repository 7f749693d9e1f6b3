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

import { afterAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { z } from 'zod';

// The first compilation takes half a minute of a core that is free.
vi.setConfig({ testTimeout: 300_000 });

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
  // Each compiles only what its change touches, after the first.
  const args = [tsc, '--pretty', 'false', '--incremental', '--tsBuildInfoFile', 'tsc.tsbuildinfo'];
  const { stdout } = spawnSync(process.execPath, args, { cwd: copy, encoding: 'utf8' });
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
  expect(shown).toMatchObject({
    subscribers: ['audit'],
    example: { feedId: 'feed_7', entries: 12 },
  });
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

test('an operator’s action takes three files: its route, OpenAPI, form, follow page and command are made of them', () => {
  const ACT = 'lib/bus/deliveries/operations/flag-timer.ts';
  const DECLARED = 'lib/console/timers/actions.ts';
  const SAID = 'lib/console/timers/views.ts';
  write(
    ACT,
    `import { v7 as uuidv7 } from 'uuid';

import type { Database } from '../../../platform/db/connect.ts';
import { driverOf, run } from '../../../platform/db/statement.ts';

/** Records that an operator looks after a timer. @returns whether there is one. */
export async function flagTimer(db: Database, id: string, by: string, reason: string): Promise<boolean> {
  const flagged = await run(driverOf(db), { text: FLAG, values: [id, by, reason, uuidv7()] });
  return flagged.length > 0;
}

const FLAG = \`
  insert into operator_actions (id, at, operator, action, topic, reason, event_id)
  select $4::text::uuid, clock_timestamp(), $2::text, 'flag_timer', topic, $3::text, id
  from timers where id = $1::text::uuid
  returning id\`;
`,
  );
  edit(
    DECLARED,
    'import { cancelTimerById }',
    `import { flagTimer } from '../../bus/deliveries/operations/flag-timer.ts';\n$&`,
  );
  edit(
    DECLARED,
    /export const timerActions = \[.*\];/,
    `const flag = action({
  name: 'flag-timer',
  id: 'flagTimer',
  path: \`\${timersPath()}/{eventId}/flag\`,
  summary: 'Say that you look after a timer',
  parameters: { eventId: z.uuid('expected the id of an event') },
  body: z.object({ reason: shape.requiredReason }).meta(shape.needsReason),
  answer: z.object({ eventId: z.uuid() }),
  unknown: UNKNOWN,
  handle: async ({ parameters: { eventId }, body, operator, bus }) =>
    (await flagTimer(await bus.database(), eventId, operator.subject, body.reason)) ? { eventId } : null,
  button: 'Flag…',
  asks: { text: 'Others see it in the log.', example: 'case 4411', submit: 'Flag' },
  done: (_, { eventId }) => \`Flagged \${eventId}.\`,
  command: {
    summary: 'say that you look after a timer',
    notes: [],
    examples: [['flag-timer 019cd0a3-7c00-7c2e-9d55-7b1f6a0c3d21 --reason "case 4411"', 'one of them']],
  },
});

export const timerActions = [cancelTimer, flag];`,
  );
  edit(
    SAID,
    `does('cancel-timer', { eventId }, { of: shortId(eventId) })`,
    `$&, does('flag-timer', { eventId }, { of: shortId(eventId) })`,
  );
  expect([...changed.keys()]).toEqual([ACT, DECLARED, SAID]);
  expect(compile()).toEqual([]);

  for (const file of ['cli/commands.json', 'docs/openapi.json'])
    changed.set(file, readFileSync(join(copy, file), 'utf8'));
  run('--import', 'tsx', 'dev/descriptions.ts');
  const { paths } = z
    .object({ paths: z.record(z.string(), z.looseObject({})) })
    .parse(JSON.parse(readFileSync(join(copy, 'docs/openapi.json'), 'utf8')));
  const path = '/platform/event-bus/timers/{eventId}/flag';
  expect(paths[path]).toHaveProperty('post.operationId', 'flagTimer');

  const program = `
    import { forms as actions } from './lib/console/actions.ts';
    import { drawPage } from './lib/console/kit/doc.ts';
    import { timerActions } from './lib/console/timers/actions.ts';
    import { timerViews } from './lib/console/timers/views.ts';
    const at = '2026-03-13T16:00:00.000Z';
    const timer = { eventId: '7', topic: 't', timerKey: null, dueAt: at, setAt: at, refusedAt: null, producer: 'p', subject: null };
    const view = { generatedAt: at, filters: { topic: null, timerKey: null }, items: [timer], nextCursor: null };
    const url = new URL('http://localhost/platform/event-bus/timers');
    const operator = { subject: 'kari', name: 'kari', scopes: new Set(['event-bus:replay']) };
    console.log(JSON.stringify({
      routes: timerActions.map(({ route: { path } }) => path),
      page: String(drawPage(timerViews[0].says(view), { url, operator, actions, environment: 'Local', badges: null })),
    }));`;
  const made = z
    .object({ routes: z.array(z.string()), page: z.string() })
    .parse(JSON.parse(run('--import', 'tsx', '--input-type=module', '--eval', program)));
  expect(made.routes).toContain(path);
  expect(made.page).toContain('action="/platform/event-bus/timers/7/flag"');

  expect(run('cli/postbud.mjs', '--help')).toMatch(/flag-timer +say that you look after a timer/);
  expect(run('cli/postbud.mjs', 'flag-timer', '--help')).toContain('flag-timer <eventId> --reason <text>');
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
