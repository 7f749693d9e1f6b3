import stringWidth from 'string-width';
import { describe, expect } from 'vitest';

import { attach } from '../../lib/bus/subscribers/subscriber.ts';
import { problemValue } from '../../lib/platform/http/problem-codes.ts';
import { emitToBooks } from '../support/books.ts';
import { drain, drainLive, rows } from '../support/bus.ts';
import { RECORDS } from '../support/records.ts';
import { renameLanes } from '../support/scenes.ts';
import { test } from '../support/cli-test.ts';
import { ledger } from '../support/ledger.ts';
import { BROWSER } from '../support/operator-test.ts';

const UNKNOWN = '019a0000-0000-7000-8000-000000000009';

/** Finds the id of an incident in what `incidents` wrote. */
const idIn = (out: string) => /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/.exec(out)![0];

/** What is answered where the commit is in doubt. */
const inDoubt = () => Response.json(problemValue('database_unavailable'), { status: 503 });

const widthOf = (text: string) => Math.max(...text.split('\n').map((line) => stringWidth(line)));

describe('incidents', () => {
  test('incidents says in a sentence what happens now, and with an id what it blocks and what to do', async ({
    operators,
    postbud,
  }) => {
    await operators.held(3);
    const list = await postbud('incidents', { columns: 80 });
    expect(list.code).toBe(0);
    expect(list.out).toContain('1 happening now, 0 over with dead letters left.');
    expect(list.out.replaceAll(/\s+/g, ' ')).toContain(
      '✗ ledger fails with TypeError on payment.captured: 1 lane is blocked, 3 deliveries wait.',
    );
    expect(widthOf(list.out)).toBeLessThanOrEqual(80);
    const id = idIn(list.out);
    const one = await postbud(`incidents ${id}`, { columns: 80 });
    expect(one.out).toContain('whole topic');
    expect(one.out.replaceAll(/\s+/g, ' ')).toContain(`When it is fixed: npx postbud retry ${id} --wait`);
    expect((await postbud(`incidents ${id} --json`)).json()).toMatchObject({
      incidentId: id,
      blockedLanes: 1,
    });
  });

  test('the way from an incident to confirmed takes four commands', async ({
    bus,
    server,
    operators,
    postbud,
  }) => {
    await operators.died(7);
    const id = idIn((await postbud('incidents')).out);
    const replayed = await postbud(`replay --incident ${id} --reason fixed --yes`);
    expect([replayed.code, replayed.out]).toEqual([0, expect.stringContaining('Replayed 7 deliveries')]);
    expect((await postbud(`incidents ${id}`)).out).toContain('being delivered again');
    await drainLive(bus.db, [ledger()]);
    expect((await postbud(`incidents ${id}`)).out).toContain('over.');
    expect(server.url).toContain('http');
  });

  test('retry of an incident says whether its lanes deliver again', async ({
    bus,
    server,
    operators,
    postbud,
  }) => {
    await operators.held(2);
    const id = idIn((await postbud('incidents')).out);
    const relayed = (handler: () => void) => {
      server.answerInstead = async ({ method }) => {
        if (method === 'POST')
          server.answerInstead = async () => void (await drainLive(bus.db, [ledger(handler)]));
        return undefined;
      };
    };
    relayed(() => {
      throw new TypeError('still down');
    });
    const failed = await postbud(`retry ${id} --wait`);
    expect([failed.code, failed.out.split('\n')]).toEqual([
      1,
      [
        '✓ Retried: 1 lane due now.',
        expect.stringMatching(
          /^✗ ledger failed with TypeError on payment.captured.*, but now it fails with TypeError: still down\.$/,
        ),
      ],
    ]);
    const [, other] = /It goes on as another: npx postbud incidents (\S+)/.exec(
      (await postbud(`incidents ${id}`)).out,
    )!;
    relayed(() => undefined);
    const delivered = await postbud(`retry ${other} --wait`);
    expect([delivered.code, delivered.out.split('\n')[1]]).toEqual([
      0,
      '✓ ledger failed with TypeError on payment.captured: over.',
    ]);
  });

  test('acknowledge, dismiss and retire do what they say', async ({ bus, operators, postbud }) => {
    await operators.died(3);
    const id = idIn((await postbud('incidents')).out);
    const taken = await postbud(`acknowledge ${id} --note told`);
    expect([taken.code, taken.out]).toEqual([0, expect.stringMatching(/^✓ Acknowledged\. ledger refused/)]);
    const refused = await postbud(`dismiss ${id} --reason tests`);
    expect([refused.code, refused.err]).toEqual([2, expect.stringContaining('Nothing was dismissed')]);
    const no = await postbud(`dismiss ${id} --reason tests`, { answer: () => 'n' });
    expect([no.code, no.asked]).toEqual([1, [expect.stringContaining('Dismiss them? [y/N]')]]);
    const done = await postbud(`dismiss ${id} --reason tests`, { answer: () => 'y' });
    expect([done.code, done.out]).toEqual([0, '✓ Dismissed 3 dead letters, which can still be replayed.']);
    await renameLanes(bus.db, 'accounting', 'postcards');
    const preview = await postbud('retire postcards --dry-run');
    expect([preview.code, preview.out]).toEqual([
      0,
      expect.stringMatching(
        /^Would retire postcards on payment\.captured\.\n.*\n\n.*\npayment\.captured +3 +0\n/,
      ),
    ]);
    const not = await postbud('retire postcards --reason history', { answer: () => '' });
    expect([not.code, not.asked]).toEqual([1, ['\nRetire postcards on payment.captured? [y/N] ']]);
    const retired = await postbud('retire postcards --reason history --yes');
    expect([retired.code, retired.out]).toEqual([
      0,
      '✓ Retired postcards on payment.captured: 3 deliveries dismissed.',
    ]);
    expect(await rows(bus.db, 'select action from operator_actions order by at')).toEqual([
      { action: 'acknowledge' },
      { action: 'dismiss' },
      { action: 'retire' },
    ]);
  });

  test('retire ends a pause where no deliveries are left', async ({ bus, operators, postbud }) => {
    await operators.died(1);
    await renameLanes(bus.db, 'accounting', 'postcards');
    await postbud('retire postcards --reason history --yes');
    await rows(
      bus.db,
      `insert into pauses (subscriber, topic, paused_at, paused_by, reason) values ('postcards', '', now(), 'ola', 'x')`,
    );
    const retired = await postbud('retire postcards --reason history --yes');
    expect([retired.code, retired.err]).toEqual([
      0,
      expect.stringMatching(/^About to retire postcards\.\n[^]* ends +Its pauses, backfills and outage/),
    ]);
    expect(await rows(bus.db, 'select from pauses')).toEqual([]);
  });

  test('incidents says that there are more than it lists, and lists as many as are asked for', async ({
    bus,
    operators,
    postbud,
  }) => {
    await operators.held(1);
    await postbud('incidents');
    const fields = await rows<{ names: string }>(
      bus.db,
      `select string_agg(quote_ident(column_name), ', ') as names from information_schema.columns
       where table_name = 'incidents' and column_name not in ('id', 'state', 'closed_at') and is_generated = 'NEVER'`,
    );
    const { names } = fields[0]!;
    await rows(
      bus.db,
      `insert into incidents (id, state, closed_at, ${names}) select gen_random_uuid(), 'closed', now(), ${names} from incidents, generate_series(1, 60)`,
    );
    const listed = async (command: string) => {
      const { out } = await postbud(command);
      const closed = out.split('\n').filter((line) => line.startsWith('✓'));
      return [closed.length, /There are more: .*?\. /.exec(out)?.[0]];
    };
    expect(await listed('incidents')).toEqual([49, 'There are more: add --limit 250. ']);
    expect(await listed('incidents --limit 250')).toEqual([60, undefined]);
  });

  test('dismiss of an incident leaves what died after its question, and refuses another number', async ({
    operators,
    postbud,
  }) => {
    const ids = await operators.died(3);
    const id = idIn((await postbud('incidents')).out);
    const other = await postbud(`dismiss ${id} --reason tests`, {
      async answer() {
        await operators.ask('/dismiss', { json: { deliveryIds: [ids[0]], reason: 'booked' } });
        return 'y';
      },
    });
    expect([other.code, other.err]).toEqual([
      1,
      expect.stringContaining('Nothing was dismissed: 2 deliveries match, not 3'),
    ]);
    const done = await postbud(`dismiss ${id} --reason tests`, {
      async answer() {
        await operators.died(2);
        return 'y';
      },
    });
    expect([done.code, done.out]).toEqual([0, '✓ Dismissed 2 dead letters, which can still be replayed.']);
    expect((await operators.ask('/dead-letters')).json).toMatchObject({ total: 2 });
  });

  test.for(['dismiss --topic payment.captured', 'retire books', 'rename books letters'])(
    '%s that was carried out, and whose answer was lost, does not say that nothing was done',
    async (line, { bus, operators, server, postbud }) => {
      await operators.died(3);
      if (!line.startsWith('dismiss')) {
        await emitToBooks(bus.db, 4, 6);
        await drain(bus.db, [attach('audit', {})]);
      }
      server.answerInstead = async (request) => {
        if (request.method !== 'POST') return undefined;
        const json = (await request.clone().json()) as { dryRun?: boolean };
        // A preview of a rename.
        if (json.dryRun === true) return undefined;
        server.answerInstead = null;
        const path = new URL(request.url).pathname.replace('/platform/event-bus', '');
        expect((await operators.ask(path, { json })).status).toBe(200);
        return inDoubt();
      };
      const done = await postbud(`${line} --reason tests --yes`);
      expect([done.code, done.out, done.err]).toEqual([
        3,
        '',
        expect.stringMatching(
          /^(?!.*Nothing was (dismissed|retired|renamed)).*It may have been \w+ all the same: preview it again\.$/s,
        ),
      ]);
    },
  );

  test.for([['retire books', 'Nothing was retired: 5 deliveries match, not 3.']] as const)(
    '%s is refused where more has come for it since the question',
    async ([line, said], { bus, postbud }) => {
      await emitToBooks(bus.db, 1, 3);
      await drain(bus.db, [attach('audit', {})]);
      const refused = await postbud(`${line} --reason tests`, {
        async answer() {
          await emitToBooks(bus.db, 4, 5);
          await drain(bus.db, [attach('audit', {})]);
          return 'y';
        },
      });
      expect([refused.code, refused.err]).toEqual([1, expect.stringContaining(said)]);
      expect(await rows(bus.db, `select distinct state::text from ${RECORDS}`)).toEqual([
        { state: 'pending' },
      ]);
    },
  );

  test('dismiss with a filter shows a preview, asks, and dismisses what matches', async ({
    bus,
    operators,
    postbud,
  }) => {
    await operators.died(3);
    const filter = 'dismiss --topic payment.captured --subscriber ledger';
    const preview = await postbud(`${filter} --dry-run`);
    expect([preview.code, preview.out.split('\n')[0]]).toEqual([0, 'Would dismiss 3 dead letters.']);
    const other = await postbud(`${filter} --reason tests --expected 2 --yes`);
    expect([other.code, other.err]).toEqual([
      1,
      expect.stringContaining('Nothing was dismissed: 3 match, not 2.'),
    ]);
    const no = await postbud(`${filter} --reason tests`, { answer: () => 'n' });
    expect([no.code, no.asked]).toEqual([1, [expect.stringContaining('Dismiss them? [y/N]')]]);
    const done = await postbud(`${filter} --since 24h --reason tests`, { answer: () => 'y' });
    expect([done.code, done.out]).toEqual([0, '✓ Dismissed 3 dead letters, which can still be replayed.']);
    expect(await rows(bus.db, 'select action, topic, reason from operator_actions')).toEqual([
      { action: 'dismiss', topic: 'payment.captured', reason: 'tests' },
    ]);
    const again = await postbud(`${filter} --reason tests --yes`);
    expect([again.code, again.err.split('\n').slice(0, 2)]).toEqual([
      0,
      ['Nothing to dismiss', 'No dead letter matches.'],
    ]);
    const both = await postbud('dismiss 12-345 --topic payment.captured --reason tests --yes');
    expect([both.code, both.err]).toEqual([
      2,
      expect.stringContaining("'12-345' is dismissed alone: leave out the topic"),
    ]);
  });

  test('rename says what it would rename, asks, and renames it', async ({ bus, operators, postbud }) => {
    await operators.died(3);
    const preview = await postbud('rename ledger books --dry-run');
    expect([preview.code, preview.out]).toEqual([
      0,
      expect.stringMatching(
        /^Would rename ledger to books on payment\.captured\.\n.*\n\n.*\npayment\.captured +0 +3\n/,
      ),
    ]);
    const refused = await postbud('rename ledger books --reason renamed');
    expect([refused.code, refused.err]).toEqual([2, expect.stringContaining('Nothing was renamed')]);
    const no = await postbud('rename ledger books --reason renamed', { answer: () => 'n' });
    expect([no.code, no.asked]).toEqual([
      1,
      [expect.stringContaining('Rename ledger to books on payment.captured? [y/N]')],
    ]);
    const done = await postbud('rename ledger books --reason renamed', { answer: () => 'y' });
    expect([done.code, done.out]).toEqual([
      0,
      '✓ Renamed ledger to books. Deploy the release that lists books now.',
    ]);
    expect(await rows(bus.db, 'select distinct subscriber from error_groups')).toEqual([
      { subscriber: 'books' },
    ]);
    const again = await postbud('rename ledger books --reason renamed --yes');
    expect([again.code, again.err]).toEqual([0, expect.stringMatching(/^About to rename ledger to books\./)]);
    expect((await postbud('log')).out).toContain('Now books: renamed');
  });

  test('rename refuses the name of another subscriber', async ({ bus, postbud }) => {
    await emitToBooks(bus.db, 1, 3, { isBeside: true });
    await drain(bus.db, [attach('audit', {})]);
    const refused = await postbud('rename books ledger --reason renamed --yes');
    expect([refused.code, refused.err]).toEqual([
      1,
      expect.stringContaining('ledger is another subscriber of payment.captured'),
    ]);
  });

  test.for([
    ['rename ledger --reason renamed --yes', 2, 'The new name is missing.'],
    ['rename ledger books --yes', 2, '--reason is missing'],
    ['rename books books --reason renamed --yes', 2, 'expected the new name, which is another'],
    [
      'rename books ledger --topic payment.captur --reason renamed --yes',
      2,
      "--topic 'payment.captur': expected a topic of the catalog; did you mean payment.captured?",
    ],
    ['incidents 12', 2, "'12' is not an incident id."],
    [`incidents ${UNKNOWN}`, 1, 'Unknown incident.'],
    [`incidents ${UNKNOWN} --state owed`, 2, '--state filters the list; it can’t be used with an id.'],
    ['incidents --state over', 2, "--state 'over': expected happening or owed or closed"],
    [`acknowledge ${UNKNOWN}`, 2, '--note is missing: '],
    ['dismiss --reason x', 2, '--topic: expected a topic, a subscriber, a group, --search or --delivery'],
    [`dismiss ${UNKNOWN} --yes`, 2, '--reason is missing'],
    ['retire ledger --reason history --yes', 1, 'This release’s catalog lists ledger for'],
    ['retire postcards --yes', 2, '--reason is missing'],
    [
      'retire telegrams --reason history --yes',
      2,
      'Nothing is left of this name, or it never had a delivery.',
    ],
    [
      `replay --incident ${UNKNOWN} --since 24h`,
      2,
      '--incident selects the dead letters alone: leave out the topic and the options',
    ],
    [
      'replay payment.captured --since 1h --include some',
      2,
      "--include 'some': expected dead_letters, dismissed or all",
    ],
    ['replay --since 24h --yes', 2, 'the topic: expected a topic, a subscriber'],
    ['replay payment.captured --yes', 2, '--since: missing; expected a time span such as 90m'],
    ['replay --delivery 13 --yes', 2, "--delivery '13': expected a delivery id, such as"],
  ] as const)('%s ends with %i and the reason', async ([args, exitCode, reason], { postbud }) => {
    const { code, err } = await postbud(args);
    expect([code, err]).toEqual([exitCode, expect.stringContaining(reason)]);
  });
});

describe('an incident of the bus itself', () => {
  test('says that more is to be repaired than is listed', async ({ bus, operators, postbud }) => {
    await rows(
      bus.db,
      `insert into set_aside (at, kind, topic, event_id, found)
       select now(), 'unfit_marker', 'payment.captured', gen_random_uuid(), '{}' from generate_series(1, 101)`,
    );
    const said = 'the newest 100; the others follow as these are repaired';
    const id = idIn((await postbud('incidents')).out);
    const page = await operators.ask(`/incidents/${id}`, { accept: BROWSER });
    for (const { out } of [await postbud(`incidents ${id}`), { out: page.text }]) {
      expect(out).toContain('The bus set aside 101 rows of payment.captured');
      expect(out).toContain(said);
    }
  });

  test('lists what the bus set aside, and repair dismisses a row without an event', async ({
    bus,
    server,
    postbud,
  }) => {
    await rows(
      bus.db,
      `insert into set_aside (at, kind, topic, event_id, found)
       values (now(), 'unfit_marker', 'payment.captured', $1::uuid, '{"error": "null value"}')`,
      [UNKNOWN],
    );
    const incident = idIn((await postbud('incidents')).out);
    const listed = await postbud(`incidents ${incident}`);
    expect(listed.out).toContain('A row that awaits a place, and has no event.');
    const [, id] = /npx postbud repair (\d+) --reason/.exec(listed.out)!;
    const repaired = await postbud(`repair ${id} --reason tried`);
    expect([repaired.code, repaired.out.replaceAll(/\s+/g, ' ')]).toEqual([
      0,
      expect.stringContaining(
        `✓ Repaired ${id}. It is dismissed, and stays on record. Nothing is delivered.`,
      ),
    ]);
    expect((await postbud(`incidents ${incident} --json`)).json()).toMatchObject({
      state: 'closed',
      setAside: [],
    });
    expect(await postbud(`repair ${id} --reason tried`)).toMatchObject({ code: 1, out: '' });
    expect(await postbud('repair')).toMatchObject({ code: 2 });
    expect(server.url).toContain('http');
  });
});
