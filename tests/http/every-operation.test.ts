import { describe, expect } from 'vitest';
import * as z from 'zod';

import { HealthRecorder } from '../../lib/components/subscriber-health/recorder.ts';
import { attach } from '../../lib/bus/subscribers/subscriber.ts';
import { storedWithoutLedger } from '../support/backfills.ts';
import { emitToBooks } from '../support/books.ts';
import { drainLive, emitAlone, payloadOf, rows } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { test } from '../support/cli-test.ts';
import { operatorRoutes } from '../support/operator-function.ts';
import { BROWSER, HOME } from '../support/operator-test.ts';
import type { Operators } from '../support/operator-test.ts';

// What holds for all operations, once: what is true of one alone is in the test of its own.

interface Case {
  /** Its name in the operator log, and its verb. */
  readonly action: string;
  readonly path: string;
  readonly body: Readonly<Record<string, unknown>>;
  readonly command: string;
  /** What there is to do. */
  readonly setUp: (bus: Bus, operators: Operators) => Promise<unknown>;
  /** How many that is; null where it is not counted. */
  readonly count: number | null;
}

const letters = async (_: Bus, operators: Operators) => await operators.died(3);

/** A name that the catalog does not list, with deliveries that wait. */
async function books({ db }: Bus): Promise<void> {
  await emitToBooks(db, 1, 3);
  await drainLive(db, [attach('audit', {})]);
}

const CASES: readonly Case[] = [
  {
    action: 'replay',
    path: '/replay',
    body: { topic: 'payment.captured', since: '24h' },
    command: 'replay payment.captured --since 24h',
    setUp: letters,
    count: 3,
  },
  {
    action: 'dismiss',
    path: '/dismiss',
    body: { topic: 'payment.captured', since: '24h' },
    command: 'dismiss --topic payment.captured --since 24h',
    setUp: letters,
    count: 3,
  },
  {
    action: 'backfill',
    path: '/backfill',
    body: { topic: 'payment.captured', subscriber: 'ledger', since: '30d' },
    command: 'backfill ledger --topic payment.captured --since 30d',
    setUp: async ({ db }) => await storedWithoutLedger(db, 1, 3),
    count: 3,
  },
  {
    action: 'erase',
    path: '/erasures',
    body: { subjects: 'usr_3071' },
    command: 'erase --subject usr_3071',
    setUp: async ({ db }) => await emitAlone(db, 'booking.created', payloadOf('booking.created')),
    count: null,
  },
  {
    action: 'retire',
    path: '/subscribers/books/retire',
    body: {},
    command: 'retire books',
    setUp: books,
    count: 3,
  },
  {
    action: 'rename',
    path: '/subscribers/books/rename',
    body: { to: 'letters' },
    command: 'rename books letters',
    setUp: books,
    count: 3,
  },
];

const REASON = 'case 2026-114';

/** All that is stored, table by table. */
async function stored({ db }: Bus): Promise<Readonly<Record<string, string>>> {
  // What the relay has measured is written behind its back.
  await HealthRecorder.of(db).write();
  const tables = await rows<{ name: string }>(
    db,
    `select tablename as name from pg_tables where schemaname = 'public' order by 1`,
  );
  const found: Record<string, string> = {};
  for (const { name } of tables) {
    const [row] = await rows<{ all: string }>(
      db,
      `select md5(coalesce(string_agg(kept::text, ',' order by kept::text), '')) as all from ${name} as kept`,
    );
    found[name] = row!.all;
  }
  return found;
}

const logged = async ({ db }: Bus) =>
  await rows<{ action: string; operator: string; reason: string }>(
    db,
    `select action, operator, reason from operator_actions
      union all select 'replay', requested_by, reason from replays`,
  );

/** The page of a preview: by its address where it has one, else as a dry run. */
async function previewed(operators: Operators, { path, body }: Case, scope?: string) {
  const sent = { accept: BROWSER, ...(scope !== undefined && { scope }) };
  const fields = Object.fromEntries(Object.entries(body).map(([name, value]) => [name, String(value)]));
  const shown = await operators.ask(`${path}?${new URLSearchParams(fields)}`, sent);
  return shown.status === 200
    ? shown
    : await operators.ask(path, { ...sent, form: { ...fields, dryRun: 'true' } });
}

/** The fields of the form that begins it, as a browser would send them, but for what is typed. */
function formIn(text: string, path: string): Readonly<Record<string, string>> {
  const [, form = ''] = new RegExp(`<form method="post" action="${HOME}${path}">([^]*?)</form>`).exec(text)!;
  const hidden = form.matchAll(/type="hidden" name="(\w+)" value="([^"]*)"/g);
  const [, typed] = /Type (\S+) to confirm/.exec(form) ?? [];
  return {
    ...Object.fromEntries([...hidden].map(([, name, value]) => [name!, value!])),
    ...(typed !== undefined && { confirm: typed }),
  };
}

test('Every operation is here: each route whose request can be a dry run.', () => {
  const operations = operatorRoutes.flatMap(({ method, path, body }) => {
    const shape = body && z.toJSONSchema(body.schema, { io: 'input', unrepresentable: 'any' });
    return method === 'post' && shape?.properties?.['dryRun'] !== undefined ? [path] : [];
  });
  const named = CASES.map(({ path }) => HOME + path.replace('books', '{subscriber}'));
  expect(operations.toSorted()).toEqual(named.toSorted());
});

describe.for(CASES)('$action', (operation) => {
  const { action, path, body, command, setUp } = operation;
  const json = { ...body, reason: REASON };

  test('changes nothing in a preview, a dry run or a question that nobody answers with yes', async ({
    bus,
    operators,
    postbud,
  }) => {
    await setUp(bus, operators);
    const before = await stored(bus);
    expect((await previewed(operators, operation)).status).toBe(200);
    expect((await operators.ask(path, { json: { ...json, dryRun: true } })).status).toBe(200);
    expect(await postbud(`${command} --dry-run`)).toMatchObject({
      code: 0,
      out: expect.stringContaining(`Would ${action} `),
    });
    const line = `${command} --reason case-2026-114`;
    expect(await postbud(line)).toMatchObject({
      code: 2,
      err: expect.stringContaining('there is no terminal to ask'),
    });
    expect(await postbud(line, { answer: () => 'n' })).toMatchObject({
      code: 1,
      err: expect.stringMatching(/Nothing was \w+\.$/),
    });
    expect(await stored(bus)).toEqual(before);
  });

  test('is begun only by those who may, for a reason that names nobody', async ({ bus, operators }) => {
    await setUp(bus, operators);
    const before = await stored(bus);
    const refused = await operators.ask(path, { json, scope: 'event-bus:read' });
    expect([refused.status, refused.json['code']]).toEqual([403, 'insufficient_scope']);
    const named = await operators.ask(path, { json: { ...body, reason: 'kari.lunde@example.no asked' } });
    expect([named.status, named.json['code'], named.json['issues']]).toEqual([
      400,
      'validation_failed',
      [expect.objectContaining({ path: 'reason' })],
    ]);
    const { text, status } = await previewed(operators, operation, 'event-bus:read');
    expect(text).not.toContain('name="reason"');
    expect([status, text.includes('needs the scope') || text.includes('lacks the scope')]).toEqual([
      expect.toBeOneOf([200, 403]),
      true,
    ]);
    expect(await stored(bus)).toEqual(before);
  });

  test('is begun by the form of its preview, says what was done, and is in the log', async ({
    bus,
    operators,
  }) => {
    await setUp(bus, operators);
    const form = formIn((await previewed(operators, operation)).text, path);
    const wrong = await operators.ask(path, {
      accept: BROWSER,
      form: { ...form, reason: 'kari.lunde@example.no asked' },
    });
    expect(wrong.status).toBe(400);
    expect(wrong.text).toContain('value="kari.lunde@example.no asked"');
    expect(formIn(wrong.text, path)).toEqual(form);
    const done = await operators.ask(path, { accept: BROWSER, form: { ...form, reason: REASON } });
    expect(done.status).toBe(303);
    const to = done.headers.get('location')!.replace(HOME, '');
    const cookie = done.headers.getSetCookie().join('; ');
    const page = await operators.ask(to, { accept: BROWSER, cookie });
    expect(page.status).toBe(200);
    expect(page.text).toMatch(
      /<div id="done" role="status" class="alert ok">|<b>(Replayed|Backfilled|Erased)/,
    );
    expect(await logged(bus)).toEqual([
      { action, operator: 'kari@solvik.example.no', reason: expect.stringMatching(`${REASON}$`) },
    ]);
  });

  test('is done by its command, which answers as its route does', async ({ bus, operators, postbud }) => {
    await setUp(bus, operators);
    const done = await postbud(`${command} --reason case-2026-114 --yes --json`);
    const route = operatorRoutes.find(
      (one) => one.method === 'post' && one.path === HOME + path.replace('books', '{subscriber}'),
    )!;
    expect([done.code, 'answer' in route && route.answer.safeParse(done.json()).success]).toEqual([0, true]);
    const { items } = (await postbud('log --json')).json() as { items: readonly object[] };
    expect(items).toEqual([
      expect.objectContaining({
        action,
        operator: 'kari@solvik.example.no',
        reason: expect.stringMatching(/case-2026-114$/),
      }),
    ]);
  });
});

describe.for(CASES.filter((one) => one.count !== null))('$action, which is counted,', (operation) => {
  const { path, body, command, setUp, count } = operation;

  test.runIf(count !== null)(
    'is refused where another number matches',
    async ({ bus, operators, postbud }) => {
      await setUp(bus, operators);
      const before = await stored(bus);
      const refused = await operators.ask(path, {
        json: { ...body, reason: REASON, expectedCount: count! + 1 },
      });
      expect([refused.status, refused.json['code']]).toEqual([409, 'count_changed']);
      expect(await postbud(`${command} --reason case-2026-114 --yes --expected ${count! + 1}`)).toMatchObject(
        { code: 1, err: expect.stringContaining(`${count} match, not ${count! + 1}`) },
      );
      expect(await stored(bus)).toEqual(before);
    },
  );
});
