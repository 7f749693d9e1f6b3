import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, posix } from 'node:path';
import { pathToFileURL } from 'node:url';

import { parseSync, Visitor } from 'oxc-parser';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';

const root = new URL('../../', import.meta.url).pathname;
const rooms = z.record(z.string(), z.array(z.string()));
const { LAYERS, STRANGERS, PACKAGES } = z
  .object({ LAYERS: z.array(z.array(z.string())), STRANGERS: rooms, PACKAGES: rooms })
  .parse(await import(pathToFileURL(join(root, 'oxlint.config.mjs')).href));

type Arrow = readonly [importer: string, imported: string];

/** Reads what a module imports: values and types, at its top, on demand or from within a type, and what it re-exports. */
function importsOf(file: string, source: string): string[] {
  const { module, program, errors } = parseSync(file, source);
  expect(errors, file).toEqual([]);
  const inTypes: string[] = [];
  new Visitor({ TSImportType: ({ source: { value } }) => void inTypes.push(value) }).visit(program);
  const imported = [
    ...module.staticImports.map(({ moduleRequest }) => moduleRequest.value),
    ...module.staticExports.flatMap(({ entries }) =>
      entries.flatMap(({ moduleRequest }) => moduleRequest?.value ?? []),
    ),
    ...module.dynamicImports
      .map(({ moduleRequest: { start, end } }) => /^'([^'$]*)'$/.exec(source.slice(start, end))?.[1])
      .filter((name) => name !== undefined),
    ...inTypes,
  ];
  return [...new Set(imported)].map((name) =>
    name.startsWith('.') ? posix.join(posix.dirname(file), name) : name,
  );
}

/** The room of a file: the longest name in the table that fits. */
function roomOf(file: string): string | undefined {
  return LAYERS.flat()
    .filter((room) => isIn(room, file))
    .toSorted((one, other) => other.length - one.length)[0];
}

const isIn = (room: string, file: string) => file === room || file.startsWith(`${room}/`);

const rowOf = (room: string) => LAYERS.findIndex((names) => names.includes(room));

/** Says why an import is against the table; undefined where it is not. */
function complaint([importer, imported]: Arrow): string | undefined {
  const from = roomOf(importer);
  if (from === undefined) return `${importer} is in no room of the table`;
  const to = roomOf(imported);
  const allowed = Object.entries(PACKAGES).find(([room]) => isIn(room, importer))?.[1];
  if (to === undefined) {
    // The benchmarks start their Postgres as the tests do.
    if (from === 'bench' && imported.startsWith('tests/support/')) return undefined;
    if (/^(api|lib|cli|dev|bench|tests)\//.test(imported))
      return `${importer} imports ${imported}, which is in no room`;
    return allowed && !allowed.includes(imported) ? `${importer} imports the package ${imported}` : undefined;
  }
  if (from === to) return undefined;
  if (rowOf(to) <= rowOf(from)) return `${importer} imports ${imported}, which is not below it`;
  const isStrange = Object.entries(STRANGERS).some(
    ([room, strangers]) =>
      isIn(room, importer) &&
      strangers.some((stranger) => isIn(stranger, imported)) &&
      !strangers.includes(`!${to}`),
  );
  return isStrange ? `${importer} imports ${imported}, which ${from} may not know` : undefined;
}

/** Finds the circles of a graph: sets of nodes that all lead to each other. */
function circlesOf(arrows: readonly Arrow[]): string[] {
  const next = new Map<string, Set<string>>();
  for (const [from, to] of arrows) if (from !== to) next.set(from, (next.get(from) ?? new Set()).add(to));
  const reachedFrom = (start: string) => {
    const reached = new Set<string>();
    const open = [start];
    for (let node = open.pop(); node !== undefined; node = open.pop()) {
      for (const other of next.get(node) ?? []) {
        if (!reached.has(other)) open.push(other);
        reached.add(other);
      }
    }
    return reached;
  };
  const reach = new Map([...next.keys()].map((node) => [node, reachedFrom(node)]));
  const circles = [...reach].flatMap(([node, reached]) => {
    const others = [...reached].filter((other) => other !== node && reach.get(other)?.has(node));
    return others.length > 0 ? [[node, ...others].toSorted().join(' ↔ ')] : [];
  });
  return [...new Set(circles)];
}

/** The folder of a file, cut to a depth; the catalog, which all know, stands for itself. */
function folderOf(file: string, depth: number): string {
  const parts = file.split('/');
  if (parts[0] !== 'lib') return parts[0]!;
  if (isIn('lib/bus/catalog', file)) return 'lib/bus/catalog';
  return parts
    .slice(0, -1)
    .slice(0, depth + 1)
    .join('/');
}

const neighbourhoodOf = (place: string) => /^(?:lib\/)?[^/]+/.exec(place)![0];

const files = execFileSync(
  'git',
  ['ls-files', '--cached', '--others', '--exclude-standard', 'api', 'lib', 'cli', 'dev', 'bench', 'drizzle'],
  {
    cwd: root,
    encoding: 'utf8',
  },
)
  .split('\n')
  // The peers of the benchmark are a program of their own, with packages of their own.
  .filter((file) => /\.(ts|mjs)$/.test(file) && !file.startsWith('bench/peers/'));
const arrows = files.flatMap((file) =>
  importsOf(file, readFileSync(join(root, file), 'utf8')).map((imported): Arrow => [file, imported]),
);
const ours = arrows.filter(([, imported]) => files.includes(imported));

describe('the imports of api/, lib/, cli/, dev/, bench/ and drizzle/', () => {
  test('are found in every file', () => {
    expect(files.length).toBeGreaterThan(300);
    expect(arrows).toContainEqual(['api/chat.ts', 'lib/components/postbud.ts']);
    expect(arrows).toContainEqual(['lib/bus/outbox/emit.ts', 'lib/bus/catalog/catalog.ts']);
    expect(arrows).toContainEqual(['lib/bus/catalog/topic.ts', 'zod']);
  });

  test('lead to files that exist', () => {
    const relative = arrows.filter(([, imported]) =>
      /^(api|lib|cli|dev|bench|drizzle)\/.*\.ts$/.test(imported),
    );
    expect(relative.filter(([, imported]) => !files.includes(imported))).toEqual([]);
  });

  test('run downwards in the table of layers, and to no room that is barred', () => {
    const found = arrows.map(complaint).filter((text) => text !== undefined);
    expect(found).toEqual([]);
  });

  test('form no circle of files', () => {
    expect(circlesOf(ours)).toEqual([]);
  });

  test.each([1, 2, 3])('form no circle of folders, %i deep under lib/', (depth) => {
    const folders = ours.map(([from, to]): Arrow => [folderOf(from, depth), folderOf(to, depth)]);
    expect(circlesOf(folders)).toEqual([]);
  });
});

describe('the table of layers', () => {
  test('names each room once, and only rooms that exist', () => {
    const named = LAYERS.flat();
    expect(new Set(named).size).toBe(named.length);
    expect(named.filter((room) => !files.some((file) => isIn(room, file)))).toEqual([]);
    const others = [...Object.keys(STRANGERS), ...Object.values(STRANGERS).flat(), ...Object.keys(PACKAGES)];
    const places = others.map((place) => place.replace('!', ''));
    expect(places.filter((place) => !named.some((room) => isIn(place, room)))).toEqual([]);
  });

  test('has the order of the design', () => {
    const down = (...rooms: string[]) =>
      expect(rooms.map(rowOf)).toEqual(rooms.map(rowOf).toSorted((one, other) => one - other));
    const edge = LAYERS.flat().filter((room) => room.startsWith('lib/edge/'));
    const elsewhere = LAYERS.flat().filter((room) => room.startsWith('lib/elsewhere/'));
    for (const room of ['cli', 'lib/console', ...edge, ...elsewhere])
      down(room === 'cli' ? 'dev' : 'api', room, 'lib/components', 'lib/bus/relay', 'lib/platform/mail');
    down(
      'lib/bus/relay',
      'lib/bus/deliveries/operations',
      'lib/bus/deliveries',
      'lib/bus/subscribers',
      'lib/bus/outbox',
      'lib/bus/catalog',
    );
    expect(PACKAGES['lib/bus/catalog']).toEqual(['zod']);
    expect(LAYERS.at(-1)).toContain('lib/bus/catalog');
  });

  test.each<[why: string, arrow: Arrow]>([
    ['upwards', ['lib/bus/outbox/emit.ts', 'lib/bus/relay/kick.ts']],
    ['sideways', ['lib/edge/inquiry/handle-inquiry.ts', 'lib/edge/webhooks/receive.ts']],
    ['from webhooks to the operators', ['lib/edge/webhooks/receive.ts', 'lib/console/kit/words.ts']],
    ['from the operators to webhooks', ['lib/console/metrics/read.ts', 'lib/edge/webhooks/receive.ts']],
    ['from configuration into a room', ['lib/platform/config.ts', 'lib/edge/webhooks/verify.ts']],
    ['from the platform to the bus', ['lib/platform/masking/personal.ts', 'lib/bus/catalog/marks.ts']],
    ['from mail to events', ['lib/platform/mail/send-mail.ts', 'lib/bus/outbox/emit.ts']],
    ['from chat to events', ['lib/edge/chat/handle-chat.ts', 'lib/bus/catalog/catalog.ts']],
    ['from a function to the schema', ['api/chat.ts', 'drizzle/schema.ts']],
    ['from a function to Drizzle', ['api/chat.ts', 'drizzle-orm']],
    ['from a function to the environment', ['api/chat.ts', 'lib/platform/config.ts']],
    [
      'from a test bus to the components of this deployment',
      ['lib/elsewhere/testing/elsewhere.ts', 'lib/components/registry.ts'],
    ],
    ['from lib/ to dev/', ['lib/bus/relay/relay.ts', 'dev/start.ts']],
    ['from lib/ to cli/', ['lib/console/console.ts', 'cli/main.ts']],
    ['from the command line to dev/', ['cli/main.ts', 'dev/start.ts']],
    ['from the catalog to any package but zod', ['lib/bus/catalog/topic.ts', 'uuid']],
    [
      'from a room of the operators to one above it',
      ['lib/console/kit/layout.ts', 'lib/console/access/page.ts'],
    ],
    ['from a file in no room', ['lib/util.ts', 'lib/platform/time.ts']],
  ])('refuses an import %s', (_, arrow) => {
    expect(complaint(arrow)).toEqual(expect.any(String));
  });

  test('refuses a circle of files and of folders', () => {
    expect(
      circlesOf([
        ['a', 'b'],
        ['b', 'c'],
        ['c', 'a'],
        ['c', 'd'],
      ]),
    ).toEqual(['a ↔ b ↔ c']);
    expect(
      circlesOf([
        ['a', 'b'],
        ['b', 'c'],
        ['a', 'c'],
      ]),
    ).toEqual([]);
    expect(folderOf('lib/console/kit/layout.ts', 1)).toBe('lib/console');
    expect(folderOf('lib/console/kit/layout.ts', 2)).toBe('lib/console/kit');
    expect(folderOf('lib/console/console.ts', 2)).toBe('lib/console');
    expect(folderOf('lib/bus/catalog/topic.ts', 1)).toBe('lib/bus/catalog');
  });

  test('is found whichever way a file writes its import', () => {
    const source = `
      import type { A } from './a.ts';
      import './b.ts';
      export * from './c.ts';
      export type { D } from '../d.ts';
      const e = await import('./e.ts');
      type F = import('./f.ts').F;
      import { g } from 'g';`;
    expect(importsOf('lib/x/x.ts', source).toSorted()).toEqual(
      ['lib/x/a.ts', 'lib/x/b.ts', 'lib/x/c.ts', 'lib/d.ts', 'lib/x/e.ts', 'lib/x/f.ts', 'g'].toSorted(),
    );
  });
});

test('the linter refuses each room the neighbourhoods that it may know nothing of', () => {
  const folder = mkdtempSync(join(tmpdir(), 'layers-'));
  try {
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
    writeFileSync(join(folder, 'oxlint.config.mjs'), readFileSync(join(root, 'oxlint.config.mjs')));
    const named = LAYERS.flat();
    const fileIn = (room: string) => (room.endsWith('.ts') ? room : `${room}/probe.ts`);
    const refused: string[] = [];
    for (const room of named) {
      const from = fileIn(room);
      mkdirSync(join(folder, dirname(from)), { recursive: true });
      const others = named.filter((other) => neighbourhoodOf(other) !== neighbourhoodOf(room));
      const isClosed = (neighbourhood: string) =>
        others.every(
          (other) =>
            neighbourhoodOf(other) !== neighbourhood || complaint([from, fileIn(other)]) !== undefined,
        );
      const specifierOf = (other: string) => relative(dirname(from), fileIn(other)).replace(/^(?!\.)/, './');
      const lines = [...others.map(specifierOf), 'uuid'].map((specifier) => `import '${specifier}';`);
      writeFileSync(join(folder, from), `${lines.join('\n')}\n`);
      const wrong = others.filter((other) => isClosed(neighbourhoodOf(other))).map(specifierOf);
      if (complaint([from, 'uuid'])) wrong.push('uuid');
      refused.push(...wrong.map((specifier) => `${from} ${specifier}`));
    }
    const { stdout } = spawnSync(
      process.execPath,
      [join(root, 'node_modules/oxlint/bin/oxlint'), '-c', 'oxlint.config.mjs', '--format', 'json'],
      { cwd: folder, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 },
    );
    const { diagnostics } = z
      .object({
        diagnostics: z.array(z.object({ code: z.string(), message: z.string(), filename: z.string() })),
      })
      .parse(JSON.parse(stdout));
    const found = diagnostics
      .filter(({ code }) => code === 'eslint(no-restricted-imports)')
      .map(({ filename, message }) => `${filename} ${/'([^']+)'/.exec(message)?.[1]}`);
    expect(refused.length).toBeGreaterThan(300);
    expect(refused).toContain('lib/bus/catalog/probe.ts uuid');
    expect(found.toSorted()).toEqual(refused.toSorted());
  } finally {
    rmSync(folder, { recursive: true });
  }
});

function relative(from: string, to: string): string {
  const path = posix.relative(from, to);
  return path.startsWith('.') ? path : `./${path}`;
}
