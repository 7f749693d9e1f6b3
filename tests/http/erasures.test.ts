import { randomUUID } from 'node:crypto';

import { describe, expect } from 'vitest';
import type { z } from 'zod';

import { NAMES_A_PERSON } from '../../lib/console/kit/replay-request.ts';
import { emit } from '../../lib/bus/outbox/emit.ts';
import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { watchIncidents } from '../../lib/components/incidents/watch.ts';
import { drainLive, payloadOf, rows, emitAlone } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';
import { RECORDS } from '../support/records.ts';
import { test as cliTest } from '../support/cli-test.ts';
import { operatorRoutes } from '../support/operator-function.ts';
import { BROWSER, test } from '../support/operator-test.ts';

const SCOPES = 'event-bus:read event-bus:erase';
const REASON = 'Request 2026-114.';

/** Two events of usr_3071, and one that has nothing but the address. */
async function emitKari({ db }: Bus): Promise<string> {
  return await db.transaction(async (tx) => {
    await emit(tx, 'booking.created', payloadOf('booking.created'));
    await emit(tx, 'booking.approved', payloadOf('booking.approved'));
    return (await emit(tx, 'user.profile.updated', payloadOf('user.profile.updated'))).id;
  });
}

const emails = async ({ db }: Bus) =>
  (await rows<{ email: string | null }>(db, `select payload ->> 'email' as email from events`)).map(
    ({ email }) => email,
  );

describe('an erasure over HTTP', () => {
  test('takes a scope of its own, which no other includes', async ({ operators }) => {
    const json = { subjects: ['usr_3071'], reason: REASON };
    const scope = 'event-bus:read event-bus:replay event-bus:reveal';
    expect(await operators.ask('/erasures', { json, scope })).toMatchObject({
      status: 403,
      json: { code: 'insufficient_scope', detail: 'The token lacks the scope event-bus:erase.' },
    });
  });

  test('previews what it would overwrite, overwrites it, and is listed and logged without a name', async ({
    bus,
    operators,
  }) => {
    const eventId = await emitKari(bus);
    const asked = { subjects: ['usr_3071'] };
    const dry = await operators.ask('/erasures', { json: { ...asked, dryRun: true }, scope: SCOPES });
    expect(dry.json).toMatchObject({
      events: 3,
      topics: [
        { topic: 'booking.approved', events: 1 },
        { topic: 'booking.created', events: 1 },
        { topic: 'user.profile.updated', events: 1 },
      ],
      names: [
        { name: 'usr_3071', origin: 'asked' },
        { name: 'k…@…', origin: 'linked' },
      ],
      isComplete: true,
    });
    expect(dry.json['pending']).toContainEqual({
      topic: 'booking.created',
      subscriber: 'intelligence',
      count: 1,
    });
    expect(dry.text).not.toContain('kari');
    expect(await emails(bus)).not.toContain(null);

    const done = await operators.ask('/erasures', { json: { ...asked, reason: REASON }, scope: SCOPES });
    expect(done.json).toMatchObject({ state: 'ended', subjects: ['usr_3071'], found: 3, events: 3 });
    expect(await emails(bus)).toEqual([null, null, null]);
    const id = String(done.json['erasureId']);
    expect((await operators.ask(`/erasures/${id}`)).json).toMatchObject({
      erasureId: id,
      endedAt: expect.any(String),
    });
    expect((await operators.ask('/replays?only=erasures')).json).toMatchObject({
      items: [{ erasureId: id }],
      nextCursor: null,
    });
    expect((await operators.ask('/replays')).json).toMatchObject({
      items: [{ action: 'erase', operator: 'kari@solvik.example.no', reason: REASON, erasureId: id }],
    });
    // A request that is sent again begins nothing.
    const again = { ...asked, reason: REASON, erasureId: id };
    expect((await operators.ask('/erasures', { json: again, scope: SCOPES })).json['requestedAt']).toBe(
      done.json['requestedAt'],
    );

    const event = await operators.ask(`/events/${eventId}`);
    expect(event.json['event']).toMatchObject({
      erasedAt: expect.any(String),
      isValid: true,
      hidden: [],
      payload: { userId: 'usr_3071', name: 'erased', changed: ['phone'] },
    });
    const page = await operators.ask(`/events/${eventId}`, { accept: BROWSER });
    expect(page.text.replaceAll(/\s+/g, ' ')).toContain('Its personal data was erased at');
  });

  test('refuses a reason that names the person, and names that are none', async ({ bus, operators }) => {
    const ask = async (json: object) => {
      const { status, json: answer } = await operators.ask('/erasures', { json, scope: SCOPES });
      return [status, answer['detail']];
    };
    for (const reason of ['asked by kari.lunde@example.no', 'phoned from +47 912 34 567', 'fnr 01017012345'])
      expect(await ask({ subjects: ['usr_3071'], reason })).toEqual([
        400,
        expect.stringMatching(
          /^reason: these words are kept forever, so they must not name a person: use a case number,/,
        ),
      ]);
    await emitKari(bus);
    // The first has the address that stands beside the id, the others what the events have beside it.
    for (const reason of [
      'asked by KARI.LUNDE',
      'Lunde wants it',
      'kari rang',
      'training for jenter 14 is over',
    ])
      expect(await ask({ subjects: ['usr_3071'], reason })).toMatchObject([
        400,
        expect.stringMatching(/^reason: these words are kept forever/),
      ]);
    expect(await rows(bus.db, 'select from erasures')).toEqual([]);
    for (const subjects of [[], ['a'], 'x', ['nul\0nul'], ['x'.repeat(256)]])
      expect(await ask({ subjects, reason: REASON })).toEqual([
        400,
        expect.stringContaining('expected 1 to 20 names of one person'),
      ]);
  });

  test('is confirmed in the console by typing the name', async ({ bus, operators }) => {
    await emitKari(bus);
    const send = (form: Record<string, string>) =>
      operators.ask('/erasures', { form, scope: SCOPES, accept: BROWSER });
    const preview = await send({ subjects: 'usr_3071, kari.lunde@example.no', dryRun: 'true' });
    expect(preview.text).toContain('Erase 3 events?');
    expect(preview.text).toContain('Type usr_3071 to confirm');
    expect(await send({ subjects: 'usr_3071', reason: REASON, confirm: 'usr_3072' })).toMatchObject({
      status: 400,
    });
    expect(await send({ subjects: 'usr_3071', reason: REASON })).toMatchObject({ status: 400 });
    expect(await emails(bus)).not.toContain(null);
    const done = await send({ subjects: 'usr_3071', reason: REASON, confirm: 'usr_3071' });
    expect([done.status, done.headers.get('location')]).toEqual([
      303,
      expect.stringMatching(/^\/platform\/event-bus\/erasures\/[0-9a-f-]{36}$/),
    ]);
    expect(await emails(bus)).toEqual([null, null, null]);
    const page = await operators.ask('/replays', { accept: BROWSER, scope: 'event-bus:read' });
    expect(page.text).toContain('usr_3071');
    expect(page.text).toContain('Erase needs the scope');
  });
});

describe('the reason of an action', () => {
  /** A dead letter of an event about Kari Lunde, with its incident. */
  async function ofKari(bus: Bus) {
    await emitAlone(bus.db, 'user.profile.updated', payloadOf('user.profile.updated'));
    const refuse = () => {
      throw new PermanentError('refused');
    };
    await drainLive(bus.db, [subscriber('notifications', { 'user.profile.updated': refuse })]);
    await watchIncidents(bus.db);
    const [found] = await rows<{ event: string; delivery: string; incident: string }>(
      bus.db,
      `select event_id::text as event, id as delivery,
         (select id::text from incidents) as incident
       from ${RECORDS} where state = 'dead_lettered'`,
    );
    return found!;
  }

  const logged = async ({ db }: Bus) =>
    await rows(db, 'select reason from operator_actions union all select reason from replays');

  test('names nobody of its event, delivery or incident, and a case number passes', async ({
    bus,
    operators,
  }) => {
    const { event, delivery, incident } = await ofKari(bus);
    const since = '1h';
    const others = Array.from({ length: 999 }, () => `${randomUUID()}.ledger`);
    const actions: readonly (readonly [path: string, body: object, field?: string])[] = [
      [`/events/${event}/reveal`, {}],
      ['/dismiss', { deliveryIds: [delivery] }],
      [`/deliveries/${delivery}/retry`, {}],
      [`/deliveries/${delivery}/skip`, {}],
      [`/incidents/${incident}/acknowledge`, {}, 'note'],
      [`/incidents/${incident}/retry`, {}],
      [`/incidents/${incident}/dismiss`, {}],
      ['/replay', { deliveryIds: [delivery] }],
      ['/replay', { deliveryIds: [...others, delivery] }],
      ['/replay', { topic: 'user.profile.updated', since, incident }],
    ];
    for (const [path, body, field = 'reason'] of actions) {
      for (const words of ['Kari is waiting', 'K. Lunde wrote again', 'see 400 00 123']) {
        const answer = await operators.ask(path, { json: { ...body, [field]: words } });
        expect([path, words, answer.status, answer.json]).toMatchObject([
          path,
          words,
          400,
          {
            code: 'validation_failed',
            issues: [{ pointer: `/${field}`, message: expect.stringContaining('use a case number') }],
          },
        ]);
      }
    }
    expect(await logged(bus)).toEqual([]);
    const reason = 'Case 2026-114: the notifications are back.';
    const { status } = await operators.ask('/replay', { json: { deliveryIds: [delivery], reason } });
    expect([status, await logged(bus)]).toEqual([200, [{ reason }]]);
  });

  test('has nothing that looks like personal data, whatever the action is about', () => {
    const issueOf = (schema: z.ZodType, field: string, value: unknown) =>
      schema.safeParse({ [field]: value }).error?.issues.find(({ path }) => path[0] === field)?.message;
    const withWords = operatorRoutes.flatMap(({ id, body }) =>
      ['reason', 'note'].flatMap((field) =>
        body && issueOf(body.schema, field, 7) !== undefined ? [{ id, schema: body.schema, field }] : [],
      ),
    );
    expect(withWords.length).toBeGreaterThan(12);
    for (const { id, schema, field } of withWords) {
      for (const words of ['ask kari@example.no', 'fnr 01017012345', 'ring 912 34 567', '+46 70 123 45 67']) {
        expect([id, issueOf(schema, field, words)]).toEqual([id, NAMES_A_PERSON]);
      }
      for (const words of ['Case 2026-114', 'INC-48213, since 03:40', 'bkg_48213 of 2026-11-23 03:40:12 UTC'])
        expect([id, issueOf(schema, field, words)]).toEqual([id, undefined]);
    }
  });
});

describe('npx postbud erase', () => {
  cliTest('previews, asks for the name, erases, and says what is left', async ({ bus, postbud }) => {
    await emitKari(bus);
    const line = 'erase --subject usr_3071 --reason request-114';
    const refused = await postbud(line, { answer: () => 'y' });
    expect([refused.code, refused.err.split('\n').at(-1)]).toEqual([1, 'Nothing was erased.']);
    expect(await emails(bus)).not.toContain(null);
    const { code, out, err, asked } = await postbud(line, { answer: () => 'usr_3071' });
    expect(err).toContain('Erase 3 events?\nNothing has been erased yet.');
    expect(err).toMatch(/Nothing brings\s+it back/);
    expect(err).toContain('events that are recorded later');
    expect(err).toContain('! These events also name the person by: k…@…. ');
    expect(asked).toEqual(['\nType usr_3071 to erase permanently: ']);
    expect([code, out.split('\n')[0]]).toEqual([0, '✓ Erased: 3 payloads. 3 events named the person.']);
    expect(await emails(bus)).toEqual([null, null, null]);
    const log = await postbud('log');
    expect(log.out).toContain('Erase');
    expect(log.out).toContain('request-114');
  });

  cliTest('says what is missing, and what nobody can be found by', async ({ bus, postbud }) => {
    await emitKari(bus);
    const wrong = async (line: string) => {
      const { code, err } = await postbud(line);
      return [code, err];
    };
    expect(await wrong('erase')).toEqual([
      2,
      '--subject is missing.\nFor example: npx postbud erase --subject usr_3071 --reason "request 2026-114"',
    ]);
    expect(await wrong('erase --subject usr_3071')).toMatchObject([
      2,
      expect.stringContaining('--reason is missing'),
    ]);
    expect(await wrong('erase --subject usr_3071 --reason r')).toEqual([
      2,
      'Nothing was erased: there is no terminal to ask for confirmation.\nAdd --yes to do it without asking, or --dry-run for a preview.',
    ]);
    expect(await wrong('erase --subject ab --dry-run')).toMatchObject([
      2,
      expect.stringContaining("--subject 'ab': expected 1 to 20 names of one person"),
    ]);
    const dry = await postbud('erase --subject usr_3071 --exact --dry-run --json');
    expect(dry.json()).toMatchObject({ events: 2 });
    const nobody = await postbud('erase --subject usr_nobody --reason r --yes --json');
    expect([nobody.code, nobody.json()]).toMatchObject([0, { events: 0, topics: [] }]);
  });
});
