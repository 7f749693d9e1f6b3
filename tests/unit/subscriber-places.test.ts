import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import { attach, subscriber, topicsOf } from '../../lib/bus/subscribers/subscriber.ts';
import { refusalsOf, subscribersOf } from '../../lib/components/registry.ts';
import { readConfig } from '../../lib/platform/config.ts';
import type { Config } from '../../lib/platform/config.ts';
import { logTo } from '../../lib/platform/log.ts';

const URL = 'https://pay.example.no/events';
const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
const WEBHOOKS = ['webhook.cardpayments.received', 'webhook.walletpayments.received'];

let lines: object[];
beforeEach(() => {
  lines = [];
  logTo((line) => lines.push(line));
  for (const name of Object.keys(process.env))
    if (/^(SUBSCRIBER_|VERCEL)/.test(name)) vi.stubEnv(name, undefined);
});
afterEach(() => vi.unstubAllEnvs());

const settings = (variables: Record<string, string>, kind: 'none' | 'embedded' = 'none') => ({
  remoteSubscribers: readConfig(variables).remoteSubscribers,
  database: (kind === 'none' ? { kind } : { kind, dataDir: 'memory://' }) as Config['database'],
});

/** Where each topic of payments goes: `waits`, or the place of its handler. */
function routes(variables: Record<string, string>, kind?: 'none' | 'embedded'): Record<string, string> {
  const attached = subscribersOf(settings(variables, kind)).filter(({ name }) => name === 'payments');
  const placeOf = (topic: string) =>
    attached.filter(({ handlers }) => handlers.has(topic)).map(({ place }) => place);
  return Object.fromEntries(topicsOf('payments').map((topic) => [topic, placeOf(topic).join() || 'waits']));
}

const all = (place: string) => Object.fromEntries(topicsOf('payments').map((topic) => [topic, place]));
const here = Object.fromEntries(WEBHOOKS.map((topic) => [topic, 'in_process']));

/** What the component does with nothing of it elsewhere. */
const alone = { ...all('waits'), ...here };

const payments = (variables: Record<string, string>) => ({
  SUBSCRIBER_PAYMENTS_URL: URL,
  SUBSCRIBER_PAYMENTS_SECRET: SECRET,
  ...Object.fromEntries(
    Object.entries(variables).map(([part, value]) => [`SUBSCRIBER_PAYMENTS_${part}`, value]),
  ),
});

const reasons = (variables: Record<string, string>) =>
  refusalsOf(settings(variables)).map(({ error }) => error.message);

describe('a part of a component elsewhere', () => {
  test('a component in this process handles its topics, and those without a handler wait', () => {
    expect(routes({})).toEqual(alone);
  });

  test('a component with a list of topics sends those elsewhere and keeps its handlers of the others', () => {
    expect(routes(payments({ TOPICS: 'booking.approved booking.cancelled' }))).toEqual({
      ...alone,
      'booking.approved': 'elsewhere',
      'booking.cancelled': 'elsewhere',
    });
    expect(routes(payments({ TOPICS: 'webhook.cardpayments.received,booking.approved' }))).toEqual({
      ...alone,
      'webhook.cardpayments.received': 'elsewhere',
      'booking.approved': 'elsewhere',
    });
    expect(lines).toEqual([]);
  });

  test('a component whose topics are all listed moves as a whole', () => {
    expect(routes(payments({ TOPICS: topicsOf('payments').join(' ') }))).toEqual(all('elsewhere'));
  });

  test('a component that only runs elsewhere needs no list, and with one the other topics wait', () => {
    const ledger = { SUBSCRIBER_LEDGER_URL: URL, SUBSCRIBER_LEDGER_SECRET: SECRET };
    const topicsWith = (variables: object) =>
      subscribersOf(settings({ ...ledger, ...variables }))
        .filter(({ name }) => name === 'ledger')
        .flatMap(({ handlers }) => [...handlers.keys()]);
    expect(topicsWith({})).toEqual(topicsOf('ledger'));
    expect(topicsWith({ SUBSCRIBER_LEDGER_TOPICS: 'payment.captured' })).toEqual(['payment.captured']);
  });

  test('the journal of the embedded mode stands in for the topics that nobody handles, one by one', () => {
    const kept = { ...all('journal'), ...here };
    expect(routes({}, 'embedded')).toEqual(kept);
    expect(
      routes(payments({ TOPICS: 'booking.approved webhook.cardpayments.received' }), 'embedded'),
    ).toEqual({ ...kept, 'booking.approved': 'elsewhere', 'webhook.cardpayments.received': 'elsewhere' });
  });
});

describe('a refused address', () => {
  test.each([
    ['no list', {}],
    ['an empty list', { TOPICS: '  ' }],
    ['a list without a name', { TOPICS: ' , ,' }],
    ['a topic that the catalog does not have', { TOPICS: 'booking.aproved booking.cancelled' }],
    ['a topic of another component', { TOPICS: 'booking.approved booking.rescheduled' }],
    ['an unknown topic and no address', { TOPICS: 'booking.aproved', URL: '', SECRET: '' }],
  ])(
    'with %s all topics of the component wait, because nobody can tell where they belong',
    (_, variables) => {
      expect(routes(payments(variables))).toEqual(all('waits'));
      expect(lines).toEqual([
        expect.objectContaining({
          level: 'error',
          message: 'a subscriber is not attached: its deliveries wait',
          subscriber: 'payments',
          variable: 'SUBSCRIBER_PAYMENTS_TOPICS',
        }),
      ]);
      // Nor does the journal of the embedded mode take them.
      expect(routes(payments(variables), 'embedded')).toEqual(all('waits'));
    },
  );

  test.each([
    ['no address', { URL: '' }, 'URL'],
    ['a wrong address', { URL: 'pay.example.no' }, 'URL'],
    ['no secret', { SECRET: '' }, 'SECRET'],
    ['a wrong _BATCH', { BATCH: 'yes' }, 'BATCH'],
    ['a wrong _OUTAGE', { OUTAGE: 'on' }, 'OUTAGE'],
  ])('with %s only the listed topics wait, and the handlers of the others go on', (_, variables, part) => {
    const listed = 'booking.approved webhook.cardpayments.received';
    const expected = { ...alone, 'webhook.cardpayments.received': 'waits' };
    expect(routes(payments({ TOPICS: listed, ...variables }))).toEqual(expected);
    expect(lines).toEqual([
      expect.objectContaining({
        level: 'error',
        message: 'a part of a subscriber is not attached: its deliveries wait',
        subscriber: 'payments',
        topics: listed,
        variable: `SUBSCRIBER_PAYMENTS_${part}`,
      }),
    ]);
    expect(routes(payments({ TOPICS: listed, ...variables }), 'embedded')).toEqual({
      ...all('journal'),
      ...here,
      'webhook.cardpayments.received': 'waits',
      'booking.approved': 'waits',
    });
  });

  test('a refused component stops no other component', () => {
    const names = (variables: Record<string, string>) =>
      subscribersOf(settings(variables)).map(({ name, place }) => `${name} ${place}`);
    const ledger = { SUBSCRIBER_LEDGER_URL: URL, SUBSCRIBER_LEDGER_SECRET: SECRET };
    const others = [
      'audit in_process',
      'identity in_process',
      'inquiries in_process',
      'notifications in_process',
      'ledger elsewhere',
    ];
    expect(names({ ...payments({}), ...ledger })).toEqual(others);
    expect(names({ ...payments({ TOPICS: 'nothing.known' }), ...ledger })).toEqual(others);
  });

  test('the refusal of an address names the handlers that it would switch off, and the lists that are right', () => {
    const [reason, ...more] = reasons(payments({}));
    expect(more).toEqual([]);
    expect(reason).toBe(
      'SUBSCRIBER_PAYMENTS_TOPICS must list the topics to send to SUBSCRIBER_PAYMENTS_URL: payments also runs in this process, and the address alone would switch off its handlers of webhook.cardpayments.received, webhook.walletpayments.received. ' +
        'To keep those handlers, set SUBSCRIBER_PAYMENTS_TOPICS=booking.approved booking.cancelled booking.price_changed booking.expired booking.no_show_recorded resource.damage.reported tenant.settings.changed intelligence.risk.flagged; to move the whole component, add their topics to that list',
    );
    const [advised] = /(?<=SUBSCRIBER_PAYMENTS_TOPICS=)[^;]+/.exec(reason!)!;
    expect(routes(payments({ TOPICS: advised }))).toEqual({ ...all('elsewhere'), ...here });
    expect(routes(payments({ TOPICS: `${advised} ${WEBHOOKS.join(' ')}` }))).toEqual(all('elsewhere'));
  });

  test.each(['audit', 'identity', 'inquiries', 'notifications', 'payments'])(
    'the address alone of %s, which runs in this process, is refused by its name',
    (name) => {
      const prefix = `SUBSCRIBER_${name.toUpperCase()}`;
      const [reason] = reasons({ [`${prefix}_URL`]: URL, [`${prefix}_SECRET`]: SECRET });
      expect(reason).toContain(`${prefix}_TOPICS must list the topics to send to ${prefix}_URL`);
      const handled = subscribersOf(settings({})).find((one) => one.name === name)!.handlers;
      expect(reason).toContain(`would switch off its handlers of ${[...handled.keys()].join(', ')}. `);
    },
  );

  test.each([
    ['booking.aproved', 'booking.aproved (did you mean booking.approved?)'],
    ['Booking.Approved', 'Booking.Approved (did you mean booking.approved?)'],
    ['booking.approved booking.canceled', 'booking.canceled (did you mean booking.cancelled?)'],
    ['ledger.entry.posted', 'ledger.entry.posted (another component’s)'],
    [
      'booking.aproved wholly.elsewhere',
      'booking.aproved (did you mean booking.approved?), name 2 (not a topic)',
    ],
  ])('the topics %s are refused with the nearest names', (topics, check) => {
    expect(reasons(payments({ TOPICS: topics }))).toEqual([
      `SUBSCRIBER_PAYMENTS_TOPICS must name topics that the catalog lists for payments, for example booking.approved. Please check: ${check}`,
    ]);
  });

  test('a secret in the place of topics is not repeated', () => {
    const [reason] = reasons(payments({ TOPICS: SECRET }));
    expect(reason).toContain('name 1 (not a topic)');
    expect(reason).not.toContain(SECRET.slice(6));
  });
});

test('whatever the variables say, no topic is handled in two places, and none where its list does not put it', () => {
  const listed = topicsOf('payments');
  const wrongOrRight = (right: string) => fc.constantFrom(right, '', ' ', 'wrong', undefined);
  fc.assert(
    fc.property(
      fc.record({
        URL: wrongOrRight(URL),
        SECRET: wrongOrRight(SECRET),
        BATCH: wrongOrRight('on'),
        OUTAGE: wrongOrRight('off'),
      }),
      fc.option(fc.subarray([...listed, 'booking.aproved', 'ledger.entry.posted'], { minLength: 1 })),
      fc.constantFrom('none' as const, 'embedded' as const),
      (parts, topics, kind) => {
        const given = { ...parts, ...(topics && { TOPICS: topics.join(' ') }) };
        const variables = Object.fromEntries(
          Object.entries(given).map(([part, value]) => [`SUBSCRIBER_PAYMENTS_${part}`, value ?? '']),
        );
        const found = routes(variables, kind);
        const isUnset = !topics && !parts.URL?.trim();
        const isList = topics !== null && topics.every((topic) => listed.includes(topic));
        const isRight = parts.URL === URL && parts.SECRET === SECRET;
        const isElsewhere = isRight && parts.BATCH !== 'wrong' && parts.OUTAGE !== 'wrong';
        for (const topic of listed) {
          const unhandled = kind === 'embedded' ? 'journal' : 'waits';
          const alone = WEBHOOKS.includes(topic) ? 'in_process' : unhandled;
          const sent = isElsewhere ? 'elsewhere' : 'waits';
          const expected = isUnset ? alone : !isList ? 'waits' : topics.includes(topic) ? sent : alone;
          expect([topic, found[topic]]).toEqual([topic, expected]);
        }
      },
    ),
  );
});

describe('the options of a subscription', () => {
  test('variables limit a component, here and elsewhere, and leave the others without a limit', () => {
    const variables = { SUBSCRIBER_PAYMENTS_RATE: '600/m', SUBSCRIBER_LEDGER_CONCURRENCY: '4' };
    const elsewhere = { SUBSCRIBER_LEDGER_URL: URL, SUBSCRIBER_LEDGER_SECRET: SECRET };
    const { limits, remoteSubscribers } = readConfig({ ...variables, ...elsewhere });
    const attached = subscribersOf({ database: { kind: 'none' }, limits, remoteSubscribers });
    expect(Object.fromEntries(attached.map((one) => [one.name, one.limits]))).toEqual({
      audit: null,
      identity: null,
      inquiries: null,
      ledger: { rate: null, concurrency: 4 },
      notifications: null,
      payments: { rate: { count: 600, ms: 60_000 }, concurrency: null },
    });
  });

  test('a component elsewhere waits in an outage unless _OUTAGE=off, and one in this process does not', () => {
    const outageWith = (variables: Record<string, string>) =>
      subscribersOf(settings(payments({ TOPICS: 'booking.approved', ...variables })))
        .filter(({ name }) => name === 'payments')
        .map(({ place, outage }) => [place, outage]);
    expect(outageWith({})).toEqual([
      ['in_process', 'off'],
      ['elsewhere', 'wait'],
    ]);
    expect(outageWith({ OUTAGE: 'off' })).toContainEqual(['elsewhere', 'off']);
    expect(outageWith({ OUTAGE: 'wait', BATCH: 'on' })).toContainEqual(['elsewhere', 'wait']);
  });

  test.each([
    [{ afterDeadLetter: 'stop' }, "ledger: expected afterDeadLetter: 'continue' or 'halt', not 'stop'"],
    [{ afterDeadLetter: true }, "ledger: expected afterDeadLetter: 'continue' or 'halt', not true"],
    [{ outage: 'on' }, "ledger: expected outage: 'wait' or 'off', not 'on'"],
    [{ outage: false }, "ledger: expected outage: 'wait' or 'off', not false"],
    [{ onReplay: 'skip' }, "ledger: expected onReplay: 'run' or 'refuse', not 'skip'"],
    [{ onReplay: null }, "ledger: expected onReplay: 'run' or 'refuse', not null"],
  ])('a subscriber with %j is refused', (options, message) => {
    const handlers = { 'payment.captured': () => {} };
    expect(() => subscriber('ledger', handlers, options as object)).toThrow(new TypeError(message));
  });

  test('an option that is undefined has its default', () => {
    const given = { afterDeadLetter: undefined, outage: undefined, onReplay: undefined };
    const byDefault = { afterDeadLetter: 'continue', outage: 'off', onReplay: 'run' };
    expect(attach('ledger', {}, given)).toMatchObject(byDefault);
    expect(subscriber('ledger', {})).toMatchObject(byDefault);
    expect(
      subscriber('ledger', {}, { afterDeadLetter: 'halt', outage: 'wait', onReplay: 'refuse' }),
    ).toMatchObject({ afterDeadLetter: 'halt', outage: 'wait', onReplay: 'refuse' });
  });
});
