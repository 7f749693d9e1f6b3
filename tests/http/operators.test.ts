import { describe, expect, vi } from 'vitest';

import { provideRequestContext } from '../../dev/serve-output/request-context.ts';
import { MINUTE } from '../../lib/platform/time.ts';
import { rows } from '../support/bus.ts';
import { holdLanes } from '../support/scenes.ts';
import { BROWSER, HOME, operatorRequest, test } from '../support/operator-test.ts';
import type { Operators, Sent } from '../support/operator-test.ts';
import { OPERATOR_SECRET } from '../support/operator-token.ts';

// Who gets in is proven in unit/operator-token and http/operator-access, addresses, methods and bodies in
// http/operator-pages, what is found and done in tests/database.

const good = { topic: 'payment.captured', since: '24h' };
const DELIVERY = '019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.accounting';

const cursorOf = (place: object) => Buffer.from(JSON.stringify(place)).toString('base64url');

describe('a replay', () => {
  test('a replay answers with its counts, kicks a relay, and is kept with who asked and why', async ({
    bus,
    operators,
  }) => {
    await operators.died(2);
    const { json } = await operators.ask('/replay', { json: { ...good, reason: 'the ledger is mended' } });
    const counts = { matched: 2, replayed: 2 };
    expect(json).toEqual({
      replayId: expect.stringMatching(/^[0-9a-f-]{36}$/),
      topic: 'payment.captured',
      since: '24h',
      ...counts,
    });
    expect(operators.kicks).toBe(1);
    const kept = await rows(bus.db, 'select id::text, requested_by, reason, matched, replayed from replays');
    expect(kept).toEqual([
      {
        id: json['replayId'],
        requested_by: 'kari@solvik.example.no',
        reason: 'the ledger is mended',
        ...counts,
      },
    ]);
  });

  test('a replay of nothing is kept too, and kicks no relay', async ({ bus, operators }) => {
    expect((await operators.ask('/replay', { json: good })).json).toMatchObject({ matched: 0, replayed: 0 });
    expect(await rows(bus.db, 'select matched, replayed from replays')).toEqual([
      { matched: 0, replayed: 0 },
    ]);
    expect(operators.kicks).toBe(0);
  });
});

/** Every page, with what is there to be seen. */
async function places(operators: Operators): Promise<string[]> {
  const [letter] = await operators.died(2);
  const { json } = await operators.ask('/replay', { json: { ...good, limit: 1 } });
  return [
    '',
    '/topics/payment.captured',
    '/dead-letters',
    `/dead-letters/${letter}`,
    '/replay?topic=payment.captured&since=24h',
    '/replays',
    `/replays/${String(json['replayId'])}`,
  ];
}

describe('every page', () => {
  test('every page is HTML for a browser and JSON for a program, and tells caches so', async ({
    operators,
  }) => {
    for (const path of await places(operators)) {
      const page = await operators.ask(path, { accept: BROWSER });
      expect([path, page.status, page.type]).toEqual([path, 200, 'text/html; charset=utf-8']);
      expect(page.text).toMatch(/^<!doctype html>/i);
      for (const accept of [undefined, '*/*', 'application/json', 'text/html;q=0.5, application/json']) {
        const answer = await operators.ask(path, accept === undefined ? {} : { accept });
        expect([path, accept, answer.status, answer.type]).toEqual([path, accept, 200, 'application/json']);
        expect(answer.headers.get('vary')).toContain('Accept');
        expect(answer.headers.get('cache-control')).toBe('no-store');
      }
    }
  });
});

/** The path of the event of a delivery. */
const eventOf = (deliveryId: string) => `/events/${deliveryId.split('.')[0]}`;

/** Every action, also that of revealing personal data, with a valid body. */
async function actions(
  operators: Operators,
): Promise<readonly (readonly [path: string, scope: string, body: Record<string, string>])[]> {
  const [letter] = await operators.died(1);
  const [first] = await operators.held(2);
  const reason = 'for a reason';
  return [
    [`/deliveries/${first}/retry`, 'event-bus:replay', { reason }],
    [`/deliveries/${first}/skip`, 'event-bus:replay', { reason }],
    ['/subscribers/ledger/pause', 'event-bus:replay', { reason }],
    ['/subscribers/ledger/resume', 'event-bus:replay', { reason }],
    [`${eventOf(letter!)}/reveal`, 'event-bus:reveal', { reason }],
    ['/replay', 'event-bus:replay', good],
  ];
}

describe('every action', () => {
  test('an action is done with its scope alone, and kept with who and why', async ({ bus, operators }) => {
    for (const [path, scope, body] of await actions(operators)) {
      const answer = await operators.ask(path, { json: body, scope });
      expect([path, answer.status]).toEqual([path, 200]);
    }
    expect(await rows(bus.db, 'select distinct operator, reason from operator_actions')).toEqual([
      { operator: 'kari@solvik.example.no', reason: 'for a reason' },
    ]);
    expect(await rows(bus.db, 'select action from operator_actions order by at')).toEqual(
      ['retry', 'skip', 'pause', 'resume', 'reveal'].map((action) => ({ action })),
    );
    expect(operators.kicks).toBeGreaterThanOrEqual(4);
  });
});

describe('a form', () => {
  const asBrowser = { accept: BROWSER };

  test('the replay form leads to its replay, and a second click leads to the same', async ({
    bus,
    operators,
  }) => {
    await operators.died(3);
    const preview = await operators.ask('/replay?topic=payment.captured&since=24h');
    const { request } = preview.json as { request: Record<string, unknown> };
    const replayId = String(request['replayId']);
    const form = {
      ...Object.fromEntries(Object.entries(request).map(([name, value]) => [name, String(value)])),
      reason: 'mended',
      confirm: '3',
    };
    for (let click = 0; click < 2; click += 1) {
      const answer = await operators.ask('/replay', { ...asBrowser, form });
      expect([answer.status, answer.headers.get('location')]).toEqual([303, `${HOME}/replays/${replayId}`]);
    }
    expect(await rows(bus.db, 'select requested_by, reason, matched, replayed from replays')).toEqual([
      { requested_by: 'kari@solvik.example.no', reason: 'mended', matched: 3, replayed: 3 },
    ]);
    expect((await operators.ask(`/replays/${replayId}`, asBrowser)).status).toBe(200);
  });

  test.for([
    ['2', '3'],
    ['', '3'],
    ['three', '3'],
    ['33', '3'],
    ['', ''],
    ['3', ''],
  ] as const)(
    'the replay form with %j typed to confirm %j is refused with 400',
    async ([confirm, expectedCount], { operators }) => {
      await operators.died(3);
      const answer = await operators.ask('/replay', { form: { ...good, confirm, expectedCount } });
      expect([answer.status, answer.json['code']]).toEqual([400, 'not_confirmed']);
      expect(await operators.idsIn('dead_lettered')).toHaveLength(3);
    },
  );

  test('the replay form takes a number typed with spaces around it', async ({ operators }) => {
    await operators.died(3);
    const answer = await operators.ask('/replay', { form: { ...good, confirm: ' 3 ', expectedCount: '3' } });
    expect(answer.json).toMatchObject({ replayed: 3 });
  });

  test('the replay form is answered 409 with a page when the count has changed', async ({ operators }) => {
    await operators.died(3);
    const answer = await operators.ask('/replay', {
      ...asBrowser,
      form: { ...good, expectedCount: '2', confirm: '2' },
    });
    expect([answer.status, answer.type]).toEqual([409, 'text/html; charset=utf-8']);
    expect(answer.text).toContain('3 deliveries match, not 2');
    expect(await operators.idsIn('dead_lettered')).toHaveLength(3);
  });

  test('a form on a lane leads back to its own page, and to no other site', async ({ bus, operators }) => {
    const topicPage = `${HOME}/topics/payment.captured`;
    const [first] = await operators.held(3);
    const sent = async (path: string, form: Record<string, string>) => {
      const answer = await operators.ask(path, { ...asBrowser, form });
      return [answer.status, answer.headers.get('location')];
    };
    expect(await sent(`/deliveries/${first}/retry`, { next: topicPage })).toEqual([303, topicPage]);
    expect(await sent(`/deliveries/${first}/skip`, { next: 'https://evil.example/', reason: 'x' })).toEqual([
      303,
      HOME,
    ]);
    expect(
      await sent('/subscribers/ledger/pause', { next: '//evil.example', reason: 'x', topic: '' }),
    ).toEqual([303, HOME]);
    expect(await sent('/subscribers/ledger/resume', { reason: '' })).toEqual([303, HOME]);
    expect(await rows(bus.db, 'select action, reason from operator_actions order by at')).toEqual([
      { action: 'retry', reason: null },
      { action: 'skip', reason: 'x' },
      { action: 'pause', reason: 'x' },
      { action: 'resume', reason: null },
    ]);
  });

  test('a pause of a topic or subscriber that left the catalog can be resumed', async ({
    bus,
    operators,
  }) => {
    await rows(
      bus.db,
      `insert into pauses (subscriber, topic, paused_at, paused_by, reason)
       values ('ledger', 'payment.retired', now(), 'ola', 'x'), ('retired', '', now(), 'ola', 'x')`,
    );
    const resumed = async (subscriber: string, topic: string | null) => {
      const path = `/subscribers/${encodeURIComponent(subscriber)}/resume`;
      const { status, json } = await operators.ask(path, { json: { topic } });
      return [status, json['code'] ?? json['paused']];
    };
    expect(await resumed('ledger', 'payment.retired')).toEqual([200, false]);
    expect(await resumed('retired', null)).toEqual([200, false]);
    expect(await rows(bus.db, 'select from pauses')).toEqual([]);
    // There is nothing any more that could be resumed.
    expect(await resumed('ledger', 'payment.retired')).toEqual([400, 'validation_failed']);
    expect(await resumed('retired\0', null)).toEqual([404, 'not_found']);
    expect(operators.kicks).toBe(2);
  });

  test('the reveal form leads to a page that shows the personal data for five minutes, to the same operator, and logs nothing more when it is loaded again', async ({
    bus,
    operators,
  }) => {
    const [one, other] = (await operators.died(2)).map(eventOf);
    const answer = await operators.ask(`${one}/reveal`, {
      ...asBrowser,
      form: { reason: 'the tenant asks' },
    });
    const [entry] = await rows<{ id: string }>(bus.db, 'select id from operator_actions');
    const path = `${one}?revealed=${entry!.id}`;
    expect([answer.status, answer.headers.get('location')]).toEqual([303, HOME + path]);
    const isRevealed = async (to: string, sent?: Sent) => {
      const { status, json } = await operators.ask(to, sent);
      return [status, (json['event'] as { isRevealed: boolean }).isRevealed];
    };
    for (let reload = 0; reload < 3; reload += 1) expect(await isRevealed(path)).toEqual([200, true]);
    expect((await operators.ask(path, asBrowser)).text).toMatch(/personal data shown until <time/);
    expect(await rows(bus.db, 'select from operator_actions')).toHaveLength(1);

    const hidden = [200, false];
    expect(await isRevealed(path, { scope: 'event-bus:read event-bus:replay' })).toEqual(hidden);
    expect(await isRevealed(`${other}?revealed=${entry!.id}`)).toEqual(hidden);
    expect(await isRevealed(`${one}?revealed=${crypto.randomUUID()}`)).toEqual(hidden);
    expect(await isRevealed(`${one}?revealed=all`)).toEqual(hidden);
    const log = (operator: string, at: string) =>
      rows<{ id: string }>(
        bus.db,
        `insert into operator_actions (id, at, operator, action, event_id)
         values (gen_random_uuid(), clock_timestamp() - $1::interval, $2, 'reveal', $3) returning id`,
        [at, operator, one!.replace('/events/', '')],
      );
    const { operator } = (
      await rows<{ operator: string }>(bus.db, 'select operator from operator_actions')
    )[0]!;
    for (const [by, at, shows] of [
      [operator, '4 min 50 s', true],
      [operator, '5 min 10 s', false],
      ['another', '1 s', false],
    ] as const) {
      const [made] = await log(by, at);
      expect(await isRevealed(`${one}?revealed=${made!.id}`)).toEqual([200, shows]);
    }
  });

  test.for(['skip', 'pause', 'reveal'])(
    'the form to %s without a reason is refused with 400',
    async (deed, { bus, operators }) => {
      const [letter] = await operators.died(1);
      const [first] = await operators.held(1);
      const path = {
        skip: `/deliveries/${first}/skip`,
        pause: '/subscribers/ledger/pause',
        reveal: `${eventOf(letter!)}/reveal`,
      }[deed]!;
      for (const form of [{ x: '1' }, { reason: '' }, { reason: '  ' }, { reason: '\0' }]) {
        const answer = await operators.ask(path, { form });
        expect([answer.status, answer.json['issues']]).toEqual([
          400,
          [
            expect.objectContaining({
              path: 'reason',
              pointer: '/reason',
              message: expect.stringContaining('expected a reason'),
            }),
          ],
        ]);
      }
      const long = await operators.ask(path, { form: { reason: 'x'.repeat(501) } });
      expect(long.status).toBe(400);
      expect(await rows(bus.db, 'select from operator_actions')).toEqual([]);
    },
  );
});

describe('an unknown address', () => {
  test.for([
    '/topics/toString',
    '/dead-letters/17',
    '/dead-letters/1-2-3',
    "/dead-letters/1-1'",
    '/replays/17',
  ])('GET %s is answered 404, as JSON and as a page', async (path, { operators }) => {
    const answer = await operators.ask(path);
    expect([answer.status, answer.type, answer.json['code']]).toEqual([
      404,
      'application/problem+json',
      'not_found',
    ]);
    const page = await operators.ask(path, { accept: BROWSER });
    expect([page.status, page.type]).toEqual([404, 'text/html; charset=utf-8']);
  });

  test.for([
    ['/topics/payment.captred', `${HOME}?show=all`, 'payment.captured'],
    ['/subscribers/legder', `${HOME}/subscribers`, 'ledger'],
  ])('the page of the misspelt %s links to the list and names what was meant', async (row, { operators }) => {
    const [path, list, meant] = row;
    const page = await operators.ask(path!, { accept: BROWSER });
    expect(page.status).toBe(404);
    expect(page.text).toContain(`href="${list}"`);
    expect(page.text).toContain(`Did you mean ${meant}?`);
  });

  test.for<[string, Record<string, string>]>([
    ['/deliveries/17/skip', { reason: 'x' }],
    ['/subscribers/http/pause', { reason: 'x' }],
  ])('POST %s with %j is answered 404 and does nothing', async ([path, json], { bus, operators }) => {
    const answer = await operators.ask(path, { json });
    expect([answer.status, answer.json['code']]).toEqual([404, 'not_found']);
    expect(await rows(bus.db, 'select from operator_actions')).toEqual([]);
    expect(operators.kicks).toBe(0);
  });
});

describe('an action that the state does not allow', () => {
  test('an action on a delivery that is not first, not waiting or under way is answered 409', async ({
    bus,
    operators,
  }) => {
    const [first, second] = await operators.held(2);
    const done = async (deliveryId: string, deed: string) => {
      const { status, json } = await operators.ask(`/deliveries/${deliveryId}/${deed}`, {
        json: { reason: 'x' },
      });
      return [status, json['code']];
    };
    expect(await done(second!, 'skip')).toEqual([409, 'not_first']);
    expect(await done(second!, 'retry')).toEqual([409, 'not_first']);
    expect(await done(first!, 'retry')).toEqual([200, undefined]);
    expect(await done(first!, 'retry')).toEqual([409, 'not_waiting']);
    await holdLanes(bus.db, { subscriber: 'ledger', until: new Date(Date.now() + MINUTE) });
    expect(await done(first!, 'skip')).toEqual([409, 'under_way']);
  });
});

describe('a wrong request', () => {
  test.for([
    ['/dead-letters?topic=payment.capturd', 'topic'],
    ['/dead-letters?limit=0', 'limit'],
    ['/dead-letters?limit=many', 'limit'],
    ['/dead-letters?cursor=garbage', 'cursor'],
    [`/timers?cursor=${cursorOf({ dueAt: 'x', seq: '1' })}`, 'cursor'],
    [`/timers?cursor=${cursorOf({ dueAt: '2026-11-27T05:00:00.000000Z', seq: 'y' })}`, 'cursor'],
    ['/replays?limit=1001', 'limit'],
    ['/replay?since=1h', 'topic'],
    ['/replay?topic=payment.captured&since=1h&until=yesterday', 'until'],
    ['/replay?topic=payment.captured&since=1h&group=x', 'group'],
    [`/replay?deliveryIds=${DELIVERY},x`, 'deliveryIds.1'],
    [`/replay?deliveryIds=${DELIVERY}&deliveryIds=x`, 'deliveryIds.1'],
  ] as const)(
    'the query of %s is refused with 400 for its field %s',
    async ([path, field], { operators }) => {
      const answer = await operators.ask(path);
      expect([answer.status, answer.json['code']]).toEqual([400, 'validation_failed']);
      expect(answer.json['issues']).toMatchObject([{ path: field, message: expect.any(String) }]);
      expect((await operators.ask(path, { accept: BROWSER })).status).toBe(400);
    },
  );

  test('a program is told of a field that there is not, and a browser is shown the page', async ({
    operators,
  }) => {
    const path = '/dead-letters?topik=payment.captured';
    const { status, json } = await operators.ask(path);
    expect([status, json['detail']]).toEqual([400, 'query: unknown fields: topik']);
    expect((await operators.ask(path, { accept: BROWSER })).status).toBe(200);
    expect((await operators.ask('/dead-letters?format=csv')).status).toBe(200);
    expect((await operators.ask('/dead-letters?format=csv&topik=x')).status).toBe(400);
  });

  test.for([
    '/dead-letters?q=a%00b',
    '/dead-letters?group=a%00b',
    '/dead-letters?q=%ff%fe',
    '/dead-letters?q=%25',
    '/dead-letters?cursor=',
    '/dead-letters?q=&topic=&subscriber=&since=',
    '/replay?topic=payment.captured&since=1h&subscriber=identity',
  ])('an odd query is answered 200: %s', async (path, { operators }) => {
    expect((await operators.ask(path)).status).toBe(200);
  });

  test.for([
    '/dead-letters?subscriber=a%00b',
    '/dead-letters?subscriber=nobody',
    '/replay?topic=payment.captured&since=1h&subscriber=nobody',
    '/replays?subscriber=nobody',
  ])(
    'a subscriber that nobody knows is refused, as it would look like good news: %s',
    async (path, { operators }) => {
      const { status, json } = await operators.ask(path);
      expect(status).toBe(400);
      expect(json).toMatchObject({
        code: 'validation_failed',
        issues: [
          { path: 'subscriber', message: 'expected a subscriber of the catalog, for example accounting' },
        ],
      });
    },
  );

  test('a replay since a wrong time is refused, as JSON and as a form, and not made', async ({
    bus,
    operators,
  }) => {
    for (const sent of [{ json: { ...good, since: '24' } }, { form: { ...good, since: '24' } }]) {
      const answer = await operators.ask('/replay', sent);
      expect([answer.status, answer.json['code']]).toEqual([400, 'validation_failed']);
      expect(answer.json['detail']).toMatch(/^since: expected a time span such as/);
      expect(answer.json['issues']).toMatchObject([
        { path: 'since', pointer: '/since', message: expect.stringContaining('such as 90m, 24h or 7d') },
      ]);
    }
    expect(await rows(bus.db, 'select from replays')).toEqual([]);
  });

  test.for([
    ['topic', { since: '24h' }],
    ['topic', { ...good, topic: 'payment.capturd' }],
    ['topic', { ...good, topic: 'toString' }],
    ['until', { ...good, until: '1 day' }],
    ['include', { ...good, include: 'delivered' }],
    ['expectedCount', { ...good, expectedCount: -1 }],
    ['limit', { ...good, limit: 0 }],
    ['deliveryIds', { ...good, deliveryIds: [] }],
    ['deliveryIds.1', { ...good, deliveryIds: [DELIVERY, '17'] }],
    ['reason', { ...good, reason: 'x'.repeat(501) }],
    ['', { ...good, sicne: '1h' }],
    ['', []],
    ['', 'payment.captured'],
  ])('a replay is refused with 400 for the field %j of %j', async ([path, json], { operators }) => {
    const answer = await operators.ask('/replay', { json });
    expect([answer.status, answer.json['code']]).toEqual([400, 'validation_failed']);
    expect(answer.json['issues']).toMatchObject([{ path, message: expect.any(String) }]);
  });
});

describe('the function files', () => {
  const FILES = {
    index: () => import('../../api/platform/event-bus/index.ts'),
    'dead-letters': () => import('../../api/platform/event-bus/dead-letters.ts'),
    replay: () => import('../../api/platform/event-bus/replay.ts'),
    console: () => import('../../api/platform/event-bus/console.ts'),
  };

  test('the function files answer at their public paths and at their own', async ({ bus, operators }) => {
    const [letter] = await operators.died(1);
    vi.stubEnv('DATABASE_URL', bus.url);
    vi.stubEnv('OPERATOR_JWT_SECRET', OPERATOR_SECRET);
    vi.stubEnv('OPERATOR_JWKS_URL', '');
    vi.resetModules();
    const paths: readonly (readonly [keyof typeof FILES, string])[] = [
      ['index', HOME],
      ['index', `/api${HOME}`],
      ['dead-letters', `${HOME}/dead-letters`],
      ['dead-letters', `${HOME}/dead-letters/${letter}`],
      ['replay', `${HOME}/replay?topic=payment.captured&since=24h`],
      ['console', `${HOME}/topics/payment.captured`],
      ['console', `${HOME}/replays`],
    ];
    for (const [file, path] of paths) {
      const { default: endpoint } = await FILES[file]();
      const json = await endpoint.fetch(await operatorRequest(path));
      expect([path, json.status, json.headers.get('content-type')]).toEqual([path, 200, 'application/json']);
      const page = await endpoint.fetch(await operatorRequest(path, { accept: BROWSER }));
      expect([path, page.status, page.headers.get('content-type')]).toEqual([
        path,
        200,
        'text/html; charset=utf-8',
      ]);
      // The navigation of every page counts the dead letters.
      expect(await page.text()).toMatch(/Dead letters/);
      const refused = await endpoint.fetch(new Request(`https://postbud.example${path}`));
      expect([path, refused.status]).toEqual([path, 401]);
    }
    const { default: lanes } = await FILES.console();
    const paused = await lanes.fetch(
      await operatorRequest(`${HOME}/subscribers/ledger/pause`, { json: { reason: 'moving house' } }),
    );
    expect(await paused.json()).toMatchObject({ subscriber: 'ledger', topic: null, paused: true });
    expect(await rows(bus.db, 'select subscriber, topic, reason from pauses')).toEqual([
      { subscriber: 'ledger', topic: '', reason: 'moving house' },
    ]);
    const { default: replay } = await FILES.replay();
    // The relay that a replay kicks would go on into the next test.
    const background = provideRequestContext();
    const request = await operatorRequest(`${HOME}/replay`, { json: good });
    const replayed = await background.run(() => replay.fetch(request));
    await background.settled();
    expect(await replayed.json()).toMatchObject({ matched: 1, replayed: 1 });
    vi.unstubAllEnvs();
  });
});
