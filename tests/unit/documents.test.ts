import { existsSync, readFileSync, readdirSync } from 'node:fs';

import { describe, expect, test } from 'vitest';
import * as z from 'zod';

import description from '../../docs/openapi.json' with { type: 'json' };
import { variables } from '../../lib/platform/environment.ts';
import packageJson from '../../package.json' with { type: 'json' };

const root = new URL('../../', import.meta.url);
const read = (path: string) => readFileSync(new URL(path, root), 'utf8');

const documents = [
  'README.md',
  ...readdirSync(new URL('docs/', root), { encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
  'lib/bus/README.md',
  'bench/capacity.md',
  'bench/RESULTS.md',
];

test('The README has at most 200 lines.', () => {
  expect(read('README.md').trimEnd().split('\n').length).toBeLessThanOrEqual(200);
});

test("The README's tree names every folder, and no other.", () => {
  const [tree = ''] = /(?<=## The tree\n\n```\n)[^]*?(?=```)/.exec(read('README.md')) ?? [];
  const named = (line: RegExp) =>
    Array.from(tree.matchAll(line), ([, names]) => names!.trim().split(/ +/)).flat();
  const folders = (path: string) =>
    readdirSync(new URL(path, root), { withFileTypes: true })
      .filter((entry) => entry.isDirectory() && !/^(\.|node_modules$|dist$)/.test(entry.name))
      .map(({ name }) => `${name}/`);
  expect(named(/^((?:[\w-]+\/ ?)+)/gm).toSorted()).toEqual(folders('.').toSorted());
  expect(named(/^  ((?:[\w-]+\/ ?)+)/gm).toSorted()).toEqual(folders('lib').toSorted());
});

describe.for(documents)('%s', (document) => {
  const text = read(document);

  test('links only to files and headings that exist', () => {
    const here = new URL(document, root);
    const broken = targetsIn(text).filter((target) => {
      const { pathname, hash } = new URL(target, here);
      const file = new URL(pathname, here);
      return !existsSync(file) || (hash !== '' && !anchorsIn(readFileSync(file, 'utf8')).has(hash.slice(1)));
    });
    expect(broken).toEqual([]);
  });

  test('names only files and npm scripts that exist', () => {
    const paths = text.matchAll(/`((?:api|lib|cli|dev|bench|tests|docs|drizzle|public|\.ci)\/[\w./[\]-]*)`/g);
    const scripts = text.matchAll(/npm run (?:-s )?([\w:-]+)/g);
    expect(Array.from(paths, ([, path]) => path!).filter((path) => !existsSync(new URL(path, root)))).toEqual(
      [],
    );
    expect(
      Array.from(scripts, ([, script]) => script!).filter(
        (script) => !Object.hasOwn(packageJson.scripts, script),
      ),
    ).toEqual([]);
  });
});

describe('lib/bus/README.md', () => {
  const text = read('lib/bus/README.md');
  const [way = ''] = text.split('## 8');
  const lines = (path: string) => read(path).trimEnd().split('\n').length;
  const said = (what: 'core' | 'way') =>
    Number(new RegExp(`${what}\\*\\* is ([\\d,]+)\\s+lines`).exec(text)?.[1]?.replace(',', ''));

  test('fits on two pages', () => {
    expect(lines('lib/bus/README.md')).toBeLessThanOrEqual(115);
  });

  test('names only files, database functions and tests that exist', () => {
    expect(namedByCore(text).length).toBeGreaterThan(100);
    expect(namedByCore(text).filter((path) => !existsSync(new URL(path, root)))).toEqual([]);
  });

  test('says within a few hundred how many lines an event’s way has', () => {
    const files = new Set(namedByCore(way).filter((path) => /^(?:lib\/bus|drizzle\/functions)\//.test(path)));
    const counted = [...files].reduce((sum, path) => sum + lines(path), 0);
    expect(Math.abs(said('way') - counted), `${counted} lines`).toBeLessThan(300);
  });

  test('says within a few hundred how many lines the core has', () => {
    const files = readdirSync(new URL('lib/bus/', root), { recursive: true, encoding: 'utf8' })
      .filter((path) => path.endsWith('.ts') && !/^(?:catalog|migrations|doctor)\//.test(path))
      .map((path) => `lib/bus/${path}`);
    const forOthers =
      /_(?:emit|record_posted_\d+|differing_(?:use|fact)_\d+|cancel_timer_once_\d+|require_emitter_\d+|parse_\d+|edits_\d+|refuse_payload_\d+|(?:add|sum)_\d+|(?:apply|withdraw)_grants_\d+)\.sql$/;
    const functions = readdirSync(new URL('drizzle/functions/', root))
      .filter((name) => !forOthers.test(name))
      .map((name) => `drizzle/functions/${name}`);
    const counted = [...files, ...functions].reduce((sum, path) => sum + lines(path), 0);
    expect(Math.abs(said('core') - counted), `${counted} lines`).toBeLessThan(300);
  });
});

/** The files that the core's guide names: in its folder or in that of operations, of database functions, of tests. */
function namedByCore(text: string): string[] {
  const names = Array.from(
    text.matchAll(/`((?:[a-z][\w-]*\/)*[\w.-]+\.ts|postbud_\w+)`/g),
    ([, name]) => name!,
  );
  return names.map((name) => {
    if (/^(?:lib|drizzle)\//.test(name)) return name;
    if (name.startsWith('postbud_')) return `drizzle/functions/${name}.sql`;
    if (name.endsWith('.test.ts')) return `tests/database/${name}`;
    return `lib/bus/${name.includes('/') ? '' : 'deliveries/operations/'}${name}`;
  });
}

test('The log messages that the documents quote are in the code.', () => {
  const code = readdirSync(new URL('lib/', root), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts'))
    .map((path) => read(`lib/${path}`))
    .join('\n');
  const quoted = documents.flatMap((document) =>
    Array.from(
      read(document).matchAll(/`((?:a|the|webhooks?) [a-z][a-z ]+[a-z: ]*)`/g),
      ([, message]) => message!,
    ),
  );
  expect(quoted.length).toBeGreaterThan(5);
  expect(quoted.filter((message) => !code.includes(`'${message}`))).toEqual([]);
});

test('docs/privacy.md says of every table what becomes of a person in it', () => {
  const [, rows = ''] = read('docs/privacy.md').split('### What happens in each table');
  const tables = Array.from(read('drizzle/schema.ts').matchAll(/pgTable\(\s*'(\w+)'/g), ([, name]) => name!);
  expect(tables.length).toBeGreaterThan(40);
  expect(tables.filter((name) => !rows.includes(`\`${name}\``))).toEqual([]);
});

describe('docs/configuration.md', () => {
  const text = read('docs/configuration.md');
  const named = new Set(Array.from(text.matchAll(/^\|[^|]*/gm), ([cell]) => namesIn(cell)).flat());

  test('lists every variable that the configuration reads', () => {
    const missing = Object.keys(variables.shape).filter(
      (name) => !named.has(name) && !text.includes(`\`${name}\``),
    );
    expect(missing).toEqual([]);
  });

  test('lists no variable that nothing reads', () => {
    const elsewhere = new Set([
      'DATABASE_URL_UNPOOLED',
      'POSTBUD_URL',
      'POSTBUD_TOKEN',
      'NO_COLOR',
      'FORCE_COLOR',
    ]);
    const unknown = [...named].filter(
      (name) =>
        !elsewhere.has(name) &&
        !/^PRODUCER_<NAME>_SECRET$|^SUBSCRIBER_<NAME>_(URL|SECRET|TOPICS|BATCH|OUTAGE|RATE|CONCURRENCY)$|^WEBHOOK_<PROVIDER>_(SECRET|SCHEME|ACCOUNT|SIGNATURE_HEADER|RECONCILE_KEY|RECONCILE_URL|URL)$/.test(
          name,
        ) &&
        !Object.hasOwn(variables.shape, name),
    );
    expect(unknown).toEqual([]);
  });
});

function namesIn(text: string): string[] {
  return Array.from(text.matchAll(/`([A-Z][A-Z0-9_<>]+)`/g), ([, name]) => name!);
}

describe('docs/http-api.md', () => {
  const text = read('docs/http-api.md');
  const rows = text.split('\n').filter((line) => line.startsWith('|'));
  const operations = Object.entries(description.paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([method]) => method === 'get' || method === 'post')
      .map(([method, operation]) => ({
        endpoint: `${method.toUpperCase()} ${path}`,
        operation: operationShape.parse(operation),
      })),
  );

  test('names every endpoint', () => {
    expect(operations.map(({ endpoint }) => endpoint).filter((endpoint) => !text.includes(endpoint))).toEqual(
      [],
    );
  });

  test('names no endpoint of the console that is not there', () => {
    const named = text.match(/\b(?:GET|POST) \/platform\/[\w/{}-]+/g) ?? [];
    const known = new Set(operations.map(({ endpoint }) => endpoint));
    expect(named.length).toBeGreaterThan(30);
    expect(named.filter((endpoint) => !known.has(endpoint))).toEqual([]);
  });

  test('names every field of every request with its longest length', () => {
    const undocumented = operations.flatMap(({ endpoint, operation }) =>
      fieldsOf(operation)
        .filter(({ name, longest }) => !rows.some((row) => tells(row, name, longest)))
        .map(({ name, longest }) => `${endpoint}: ${name} ${longest ?? ''}`),
    );
    expect(undocumented).toEqual([]);
  });

  test('explains every reason for which a delivery waits', () => {
    const { enum: codes } = description.components.schemas.WhyCode;
    const explained = rows.flatMap((row) => /^\| `(\w+)` \| for /.exec(row)?.[1] ?? []);
    expect(explained.toSorted()).toEqual(codes.toSorted());
  });

  test('gives every error code its status, and no other code', () => {
    const given = rows.flatMap((row) => {
      const [, status, codes] = /^\| (\d{3}) \|([^|]*)\|/.exec(row) ?? [];
      return Array.from(codes?.matchAll(/`(\w+)`/g) ?? [], ([, code]) => `${status} ${code}`);
    });
    const raised = operations.flatMap(({ operation }) =>
      Object.entries(operation.responses).flatMap(([status, { description: said }]) =>
        /^[45]/.test(status)
          ? Array.from(said?.matchAll(/`(\w+)`/g) ?? [], ([, code]) => `${status} ${code}`)
          : [],
      ),
    );
    const everywhere = ['500 internal_error', '405 method_not_allowed'];
    expect(new Set(given)).toEqual(new Set([...raised, ...everywhere]));
  });
});

const fieldShape = z.looseObject({ maxLength: z.number().optional(), maxItems: z.number().optional() });
const operationShape = z.looseObject({
  parameters: z.array(z.object({ in: z.string(), name: z.string(), schema: fieldShape })).default([]),
  requestBody: z
    .object({
      content: z.record(
        z.string(),
        z.object({ schema: z.looseObject({ properties: z.record(z.string(), fieldShape).default({}) }) }),
      ),
    })
    .optional(),
  responses: z.record(z.string(), z.looseObject({ description: z.string().optional() })),
});

/** The fields of a path, a query and a body. Headers stand in the text. */
function fieldsOf({ parameters, requestBody }: z.output<typeof operationShape>) {
  const bodies = Object.values(requestBody?.content ?? {}).flatMap(({ schema }) =>
    Object.entries(schema.properties).map(([name, field]) => ({ name, schema: field })),
  );
  return [...parameters.filter(({ in: place }) => place !== 'header'), ...bodies]
    .filter(({ name }) => name !== 'provider' && name !== 'type')
    .map(({ name, schema }) => ({ name, longest: schema.maxLength ?? schema.maxItems }));
}

/** Whether a row of a table is about the field and tells its longest length. */
function tells(row: string, name: string, longest: number | undefined): boolean {
  const [, first = ''] = row.split('|');
  return (
    first.includes(`\`${name}\``) && (longest === undefined || row.includes(longest.toLocaleString('en')))
  );
}

/** The targets of links and images in this repository. */
function targetsIn(markdown: string): string[] {
  const prose = markdown.replaceAll(/^```[^]*?^```/gm, '');
  return Array.from(prose.matchAll(/\]\(([^)\s]+)\)/g), ([, target]) => target!).filter(
    (target) => !/^[a-z]+:/.test(target),
  );
}

/** The anchors that GitHub gives the headings of a page. */
function anchorsIn(markdown: string): ReadonlySet<string> {
  const headings = markdown.matchAll(/^#+ (.*)$/gm);
  return new Set(
    Array.from(headings, ([, heading]) =>
      heading!
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
        .replaceAll(' ', '-'),
    ),
  );
}
