import fc from 'fast-check';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';

import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { migrate } from '../../lib/bus/migrations/migrate.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import type { Connection } from '../../lib/platform/db/connect.ts';
import { drainLive, payloadOf, emitAlone } from '../support/bus.ts';
import { operatorFunction } from '../support/operator-function.ts';
import { operatorSettings, operatorToken } from '../support/operator-token.ts';

const RUNS = 1500;

const ledger = subscriber(
  'ledger',
  {
    'payment.captured': () => {
      throw new Error('refused');
    },
  },
  { maxAttempts: 1 },
);

let connection: Connection;
let token: string;
beforeAll(async () => {
  connection = await connect('memory://');
  await migrate(connection.db);
  for (let index = 0; index < 3; index += 1) {
    await emitAlone(connection.db, 'payment.captured', payloadOf('payment.captured'));
  }
  await drainLive(connection.db, [ledger]);
  token = await operatorToken({ exp: Math.floor(Date.now() / 1000) + 3600 });
});
afterAll(() => connection.close());
beforeEach(() => void vi.spyOn(process.stdout, 'write').mockReturnValue(true));
afterEach(() => void vi.restoreAllMocks());

const { fetch } = operatorFunction({
  settings: operatorSettings,
  db: () => connection.db,
  subscribers: () => [ledger],
});

/** What an operator, or someone who tries things out, may write anywhere. */
const text = fc.oneof(
  fc.constantFrom(
    'payment.captured',
    'ledger',
    '24h',
    '1y',
    '-1h',
    '2-1',
    '1-1',
    '00000000-0000-7000-8000-000000000000.accounting',
    '2026-11-21T00:00:00Z',
    '0123456789abcdef',
    '01a1feb1-c709-77be-a8b7-0f3083ee5689',
    'all',
    'true',
    '0',
    '51',
    '1e9',
    '1e400',
    '-1',
    '3000000000',
    '9007199254740993',
    '9'.repeat(400),
    '\0',
    '\ud800',
    "'",
    '%',
    Buffer.from('["2026-11-21T00:00:00.000000Z","1","2","older"]').toString('base64url'),
    Buffer.from('["9999-99-99T99:99:99.000000Z","1","2","older"]').toString('base64url'),
    Buffer.from('["2026-11-21T00:00:00.000000Z","01a1feb1-c709-77be-a8b7-0f3083ee5689"]').toString(
      'base64url',
    ),
    Buffer.from('["9999-13-99T99:99:99.000000Z","01a1feb1-c709-77be-a8b7-0f3083ee5689"]').toString(
      'base64url',
    ),
  ),
  fc.string({ unit: 'binary', maxLength: 20 }),
);

const number = fc.constantFrom(-1, 0, 0.5, 2 ** 31, 3e9, 2 ** 53 - 1, 2 ** 53, 1e300);

const names = fc.constantFrom(
  'topic',
  'since',
  'until',
  'subscriber',
  'group',
  'deliveryIds',
  'include',
  'dryRun',
  'expectedCount',
  'limit',
  'reason',
  'replayId',
  'confirm',
  'next',
  'cursor',
  'q',
  'sort',
  'show',
  'anything',
);

const path = fc.oneof(
  fc.constantFrom(
    '',
    '/dead-letters',
    '/dead-letters/2-1',
    '/events/01a1feb1-c709-77be-a8b7-0f3083ee5689/reveal',
    '/replay',
    '/replays',
    '/catalog/asyncapi',
    '/topics/payment.captured',
    '/deliveries/2-1/retry',
    '/deliveries/2-1/skip',
    '/subscribers/ledger/pause',
    '/subscribers/ledger/resume',
    '/replays/01a1feb1-c709-77be-a8b7-0f3083ee5689',
  ),
  fc
    .tuple(fc.constantFrom('topics', 'dead-letters', 'replays', 'deliveries'), text)
    .map(([page, name]) => `/${page}/${encodeURIComponent(name.toWellFormed())}`),
);

const fields = fc.array(fc.tuple(names, text), { maxLength: 6 });
const json = fc.oneof(
  fields.map((pairs) => JSON.stringify(Object.fromEntries(pairs))),
  fc
    .dictionary(names, fc.oneof(text, number, fc.jsonValue({ maxDepth: 2 })))
    .map((value) => JSON.stringify(value)),
  fc.string(),
);

const request = fc.record({
  method: fc.constantFrom('GET', 'GET', 'HEAD', 'POST', 'POST', 'PUT'),
  path,
  query: fields,
  accept: fc.constantFrom('text/html', 'application/json', '*/*', ''),
  body: fc.oneof(
    json.map((sent) => ({ type: 'application/json', sent })),
    fields.map((pairs) => ({
      type: 'application/x-www-form-urlencoded',
      sent: String(
        new URLSearchParams(pairs.map(([name, value]): [string, string] => [name, value.toWellFormed()])),
      ),
    })),
  ),
});

describe('the operators’ functions', () => {
  it(
    `the operators’ functions answer ${RUNS} requests of all kinds within the contract, and never with a 500`,
    { timeout: 300_000 },
    async () => {
      await fc.assert(
        fc.asyncProperty(request, async ({ method, path: at, query, accept, body }) => {
          const search = new URLSearchParams(
            query.map(([name, value]): [string, string] => [name, value.toWellFormed()]),
          );
          const response = await fetch(
            new Request(`https://postbud.example/platform/event-bus${at}?${search}`, {
              method,
              headers: { authorization: `Bearer ${token}`, accept, 'content-type': body.type },
              ...(method === 'POST' || method === 'PUT' ? { body: body.sent } : {}),
            }),
          );
          expect([200, 303, 400, 404, 405, 406, 409, 413]).toContain(response.status);
          expect(response.headers.get('x-request-id')).toBeTruthy();
          const answer = await response.text();
          if (response.headers.get('content-type')?.includes('json') && method !== 'HEAD') JSON.parse(answer);
        }),
        { numRuns: RUNS },
      );
    },
  );
});
