import { STATUS_CODES } from 'node:http';

import fc from 'fast-check';
import type pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, inject, test, vi } from 'vitest';

import { startMessagesApi } from '../../dev/stand-ins/messages-api.ts';
import type { MessagesApi } from '../../dev/stand-ins/messages-api.ts';
import { startSendGrid } from '../../dev/stand-ins/sendgrid.ts';
import type { SendGridStandIn } from '../../dev/stand-ins/sendgrid.ts';
import { TRAP } from '../../lib/edge/inquiry/inquiry-request.ts';
import type { Endpoint } from '../../lib/platform/http/guarded-endpoint.ts';
import { isArtefact } from '../support/artefact.ts';
import { createDatabase } from '../support/postgres.ts';

/** A request as data: it prints, and it shrinks. */
interface Call {
  readonly method: string;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body: string | Uint8Array;
  /** How the body comes: whole, in pieces of unknown length, or as pieces of which the last never comes. */
  readonly sent: 'whole' | 'in pieces' | 'broken off';
}

type Name = 'chat' | 'inquiry' | 'health';

/** The contract: what each endpoint may answer, and the codes of its problems. */
const CONTRACT = {
  chat: {
    methods: 'POST, OPTIONS',
    success: [200, 204],
    problems: {
      400: ['validation_failed', 'incomplete_body'],
      403: ['origin_not_allowed'],
      405: ['method_not_allowed'],
      413: ['body_too_large'],
      415: ['unsupported_media_type', 'unsupported_encoding'],
      429: ['rate_limited'],
      502: ['provider_unavailable', 'provider_rejected', 'provider_unreachable', 'provider_bad_response'],
      503: ['chat_not_configured'],
    },
  },
  inquiry: {
    methods: 'POST, OPTIONS',
    success: [200, 204, 303],
    problems: {
      400: ['validation_failed', 'incomplete_body'],
      403: ['origin_not_allowed'],
      405: ['method_not_allowed'],
      413: ['body_too_large'],
      415: ['unsupported_media_type', 'unsupported_encoding'],
      422: ['idempotency_key_reused'],
      429: ['rate_limited'],
      503: ['email_not_configured'],
    },
  },
  health: {
    methods: 'GET, HEAD, OPTIONS',
    success: [200, 204],
    problems: { 405: ['method_not_allowed'] },
  },
} as const satisfies Record<
  Name,
  { methods: string; success: readonly number[]; problems: Readonly<Record<number, readonly string[]>> }
>;

const SITE = 'https://www.example.no';

let api: MessagesApi;
let sendgrid: SendGridStandIn;
const unhandled: unknown[] = [];
const keepUnhandled = (reason: unknown) => void unhandled.push(reason);

beforeAll(async () => {
  process.on('unhandledRejection', keepUnhandled);
  api = await startMessagesApi();
  sendgrid = await startSendGrid();
});

afterAll(async () => {
  process.off('unhandledRejection', keepUnhandled);
  await Promise.all([api.close(), sendgrid.close()]);
});

let close: (() => Promise<unknown>) | undefined;

afterEach(async () => {
  await close?.();
  close = undefined;
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
  expect(unhandled.splice(0)).toEqual([]);
});

/** What the log must not say, whatever was asked. The rest of what it calls errors are a provider's. */
const FAULTS = /a request failed|not recorded|wrong value|relay stopped/;

/** The function file in a process of its own, so to speak, and the faults in its log. */
async function deployed(name: Name, variables: Record<string, string | undefined>) {
  for (const [variable, value] of Object.entries(variables)) vi.stubEnv(variable, value);
  vi.resetModules();
  const faults: unknown[] = [];
  const { logTo } = await import('../../lib/platform/log.ts');
  logTo((line) => void (FAULTS.test(line.message) && faults.push(line)));
  // A function of a build has a log of its own.
  if (isArtefact) {
    vi.spyOn(process.stdout, 'write').mockImplementation((line) => {
      if (FAULTS.test(String(line))) faults.push(line);
      return true;
    });
  }
  return { faults, fetch: (await functionFile(name)).fetch };
}

async function functionFile(name: Name): Promise<Endpoint> {
  switch (name) {
    case 'chat':
      return (await import('../../api/chat.ts')).default;
    case 'inquiry':
      return (await import('../../api/inquiry.ts')).default;
    case 'health':
      return (await import('../../api/health.ts')).default;
  }
}

const UNSET = {
  ANTHROPIC_API_KEY: undefined,
  SENDGRID_API_KEY: undefined,
  SENDGRID_RESIDENCY: undefined,
  CC_EMAIL: undefined,
  UPSTASH_REDIS_REST_URL: undefined,
  UPSTASH_REDIS_REST_TOKEN: undefined,
  VERCEL: undefined,
  CORS_ORIGINS: `${SITE},https://*.preview.example.no`,
};

async function configured(name: Name): Promise<Record<string, string | undefined>> {
  return {
    ...UNSET,
    ANTHROPIC_API_KEY: 'sk-ant-fuzz',
    ANTHROPIC_BASE_URL: api.url,
    SENDGRID_API_KEY: 'SG.fuzz',
    SENDGRID_BASE_URL: sendgrid.url,
    ADMIN_EMAIL: 'admin@example.no',
    FROM_EMAIL: 'noreply@example.no',
    CHAT_RATE_PER_MINUTE: '100000',
    CHAT_RATE_PER_DAY: '10000000',
    CHAT_DAILY_BUDGET: '10000000',
    INQUIRY_RATE_PER_10_MINUTES: '100000',
    INQUIRY_DAILY_BUDGET: '10000000',
    DATABASE_URL: name === 'inquiry' ? await createDatabase(inject('postgresUrl')) : 'memory://',
  };
}

/** The value that becomes a nesting this deep, which `JSON.stringify` could not write. */
const DEEP = '@deep@';
const NESTING = 12_000;
const json = (value: unknown) =>
  JSON.stringify(value).replaceAll(`"${DEEP}"`, () => '['.repeat(NESTING) + ']'.repeat(NESTING));

const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 30 }),
  fc.string({ unit: 'grapheme', maxLength: 30 }),
  // Halves of emojis among them, which `binary` leaves out.
  fc
    .array(fc.integer({ min: 0, max: 0xff_ff }), { maxLength: 12 })
    .map((units) => String.fromCharCode(...units)),
  fc.constantFrom(
    '',
    ' ',
    '\0',
    'a\0b',
    '\ud800',
    'a\udc00b',
    '😀',
    '\u200b\u2060',
    'x\r\nBcc: y@z.no',
    '\u202eabc',
    '<script>alert(1)</script>',
    '__proto__',
    DEEP,
    'kontakt-ø',
    'post@bærum.kommune.no',
    'a@b',
    '%E0%A4%A',
    'a'.repeat(121),
    'æ'.repeat(8000),
    '😀'.repeat(8000),
    'x'.repeat(10_001),
    'y'.repeat(66_000),
    '[[529]]',
    '[[400]]',
    '[[429]]',
    '[[html]]',
    '[[reset]]',
    '[[no-text]]',
    '[[refusal]]',
    '[[truncated]]',
    '/takk',
    `${SITE}/takk?a=ø#b`,
    '//evil.example',
    'javascript:alert(1)',
    'https://[::1',
    `${SITE}:1/`,
  ),
);

const value: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 4, arbitrary: text },
  { weight: 2, arbitrary: fc.jsonValue({ maxDepth: 3 }) },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      null,
      true,
      0,
      -1,
      1e308,
      [],
      {},
      [[]],
      ['user'],
      { role: 'user' },
      { length: 3 },
    ),
  },
  { weight: 1, arbitrary: fc.array(text, { maxLength: 20 }) },
);

/** Bodies that are nearly one that is taken: with fields that are wrong, gone, or not the schema's. */
function nearly(valid: fc.Arbitrary<object>, fields: readonly string[]): fc.Arbitrary<object> {
  const field = fc.oneof(
    { weight: 9, arbitrary: fc.constantFrom(...fields) },
    { weight: 1, arbitrary: fc.constantFrom('__proto__', 'constructor', 'toString', '', 'stream') },
  );
  const edit = fc.tuple(field, fc.oneof({ weight: 5, arbitrary: value }, fc.constant(undefined)));
  // Few are as they should be: what is taken is what takes time.
  const edits = fc.oneof(
    { weight: 12, arbitrary: fc.array(edit, { minLength: 1, maxLength: 4 }) },
    { weight: 1, arbitrary: fc.constant([]) },
  );
  return fc.tuple(valid, edits).map(([body, changes]) => {
    const changed = new Map<string, unknown>(Object.entries(body));
    for (const [name, to] of changes) changed.set(name, to);
    // An own `__proto__` too, as JSON can have one.
    return Object.fromEntries(changed);
  });
}

const message = fc.oneof(
  { weight: 6, arbitrary: fc.record({ role: fc.constantFrom('user', 'assistant'), content: text }) },
  { weight: 1, arbitrary: fc.record({ role: value, content: value }, { requiredKeys: [] }) },
  { weight: 1, arbitrary: value },
);
const chatBody = fc.record({
  system: fc.constant('Om lokalene.'),
  messages: fc.oneof(
    { weight: 3, arbitrary: fc.constant([{ role: 'user', content: 'Hei' }]) },
    fc.array(message, { maxLength: 18 }),
    text.map((content) => [{ role: 'user', content }]),
    fc.constantFrom('[[400]]', '[[html]]', '[[no-text]]').map((content) => [{ role: 'user', content }]),
  ),
});

const inquiryBody = fc.constant({
  name: 'Kari Nordmann',
  email: 'kari@example.no',
  organization: 'Nordvåg kommune',
  topic: 'Demo',
  persona: 'driftsleder',
  source: 'kontakt-salg',
  message: 'Hei',
});
const inquiryFields = [
  'name',
  'email',
  'organization',
  'topic',
  'phone',
  'persona',
  'summary',
  'message',
  'source',
  'contextSummary',
  TRAP,
  'redirect',
];

const bodies: Readonly<Record<Name, fc.Arbitrary<object>>> = {
  chat: nearly(chatBody, ['system', 'messages']),
  inquiry: nearly(inquiryBody, inquiryFields),
  health: fc.constant({}),
};

const asForm = (body: object) =>
  new URLSearchParams(
    Object.entries(body).map(([name, value]): [string, string] => [
      name,
      typeof value === 'object' ? json(value) : String(value),
    ]),
  ).toString();

const garbage: fc.Arbitrary<Call['body']> = fc.oneof(
  fc.uint8Array({ maxLength: 200 }),
  fc.string({ unit: 'binary', maxLength: 100 }),
  fc
    .array(fc.constantFrom('{', '}', '[', ']', '"', ':', ',', '\\u', 'null', '1e', '&', '=', '%', '\uFEFF'), {
      maxLength: 30,
    })
    .map((pieces) => pieces.join('')),
  fc.constantFrom('', '[', 'null', '"', '['.repeat(60_000), '{"a":'.repeat(12_000), ' '.repeat(65_537)),
);

const headerText = fc.string({
  unit: fc
    .oneof(
      { weight: 9, arbitrary: fc.integer({ min: 0x20, max: 0x7e }) },
      fc.integer({ min: 0xa1, max: 0xff }),
    )
    .map((code) => String.fromCharCode(code)),
  maxLength: 40,
});

const JSON_TYPE = 'application/json';
const FORM_TYPE = 'application/x-www-form-urlencoded';

/** Mostly the first, else one of the others or anything. */
const mostly = (usual: string | undefined, ...others: readonly string[]) =>
  fc.oneof(
    { weight: 16, arbitrary: fc.constant(usual) },
    { weight: 2, arbitrary: fc.constantFrom(undefined, '', ...others) },
    { weight: 1, arbitrary: headerText },
  );

const otherTypes = [
  'application/json; charset=UTF-8',
  'application/json;charset=latin1',
  'APPLICATION/JSON',
  'text/plain',
  'application/json;',
  'application/problem+json',
  'multipart/form-data; boundary=x',
  '*/*',
  ';',
  `${FORM_TYPE};charset=utf-8`,
  `${FORM_TYPE} ; charset=x`,
  `${FORM_TYPE}x`,
  FORM_TYPE.toUpperCase(),
  `${JSON_TYPE}, ${FORM_TYPE}`,
];

const headersWith = (contentType: string) =>
  fc.record({
    'content-type': mostly(contentType, JSON_TYPE, FORM_TYPE, ...otherTypes),
    origin: mostly(
      SITE,
      'https://a.preview.example.no',
      'https://a.b.preview.example.no',
      'null',
      `${SITE}.evil.example`,
      'http://localhost:3000',
      `${SITE}, ${SITE}`,
      `${SITE}/`,
      'HTTPS://WWW.EXAMPLE.NO',
    ),
    'content-encoding': mostly(undefined, 'identity', 'gzip', 'br', 'gzip, gzip'),
    'content-length': mostly(undefined, '0', '-1', '65537', '1e99', 'NaN'),
    accept: mostly(
      undefined,
      'text/event-stream',
      'text/event-stream;q=0',
      'TEXT/EVENT-STREAM ; q=0.5, */*',
      '*/*',
      ',,;;',
      PAGE,
    ),
    'idempotency-key': mostly(undefined, 'one', 'two', 'k'.repeat(5000)),
    'x-request-id': mostly(undefined, 'request-1', 'x'.repeat(128), 'x'.repeat(129), '<b>', 'å'),
    'x-vercel-id': mostly(undefined, 'arn1::abc-1'),
    'x-forwarded-for': mostly(undefined, '10.0.0.1', '::1', 'fe80::1%eth0', '1.2.3.4, 5.6.7.8'),
  });

const methodOf = (usual: string) =>
  fc.oneof(
    { weight: 12, arbitrary: fc.constant(usual) },
    fc.constantFrom('GET', 'HEAD', 'POST', 'OPTIONS', 'PUT', 'PATCH', 'DELETE', 'QUERY', 'post', 'X'),
  );

function callsOf(name: Name): fc.Arbitrary<Call> {
  const method = methodOf(name === 'health' ? 'GET' : 'POST');
  const sent = fc.oneof(
    { weight: 12, arbitrary: fc.constant('whole' as const) },
    fc.constantFrom('in pieces' as const, 'broken off' as const),
  );
  const asJson = { method, sent, headers: headersWith(JSON_TYPE) };
  const asAForm = { method, sent, headers: headersWith(FORM_TYPE) };
  return fc.oneof(
    { weight: 6, arbitrary: fc.record({ ...asJson, body: bodies[name].map(json) }) },
    { weight: 2, arbitrary: fc.record({ ...asJson, body: garbage }) },
    { weight: 2, arbitrary: fc.record({ ...asAForm, body: bodies[name].map(asForm) }) },
    { weight: 1, arbitrary: fc.record({ ...asAForm, body: garbage }) },
  );
}

function requestOf(name: Name, { method, headers, body, sent }: Call): Request {
  const present = Object.entries(headers).filter((pair): pair is [string, string] => pair[1] !== undefined);
  return new Request(`https://postbud.example/api/${name}`, {
    method,
    headers: present,
    ...(!['GET', 'HEAD'].includes(method) && { body: bodyOf(body, sent), duplex: 'half' }),
  });
}

function bodyOf(body: Call['body'], sent: Call['sent']): NonNullable<RequestInit['body']> {
  if (sent === 'whole') return body as NonNullable<RequestInit['body']>;
  const bytes = Buffer.from(body);
  const middle = Math.floor(bytes.length / 2);
  return new ReadableStream({
    start(controller) {
      if (middle > 0) controller.enqueue(bytes.subarray(0, middle));
      if (sent === 'broken off') return controller.error(new Error('gone'));
      if (middle < bytes.length) controller.enqueue(bytes.subarray(middle));
      controller.close();
    },
  });
}

/** What browsers ask for when they send a form. */
const PAGE = 'text/html,application/xhtml+xml;q=0.9,*/*;q=0.8';

const isFormType = (type: string | null) =>
  type !== null && /^(application\/x-www-form-urlencoded|multipart\/form-data) *(;|$)/i.test(type);

/** A 64 KiB body may not buy megabytes. */
const LONGEST_ANSWER = 256 * 1024;

async function check(name: Name, fetch: Endpoint['fetch'], call: Call): Promise<number> {
  const { methods, success, problems } = CONTRACT[name];
  const request = requestOf(name, call);
  const { method } = request;
  const response = await fetch(request);
  const { status, headers } = response;
  const answer = await response.text();
  const type = headers.get('content-type');
  const requestId = headers.get('x-request-id');

  expect(requestId).toMatch(/^[A-Za-z0-9._:-]{1,128}$/);
  expect(headers.get('cache-control')).toBe('no-store');
  expect(answer.length).toBeLessThan(LONGEST_ANSWER);
  const vary = headers.get('vary')?.split(/, */) ?? [];
  if (name !== 'health') expect(vary).toContain('Origin');
  else expect(headers.get('access-control-allow-origin')).toBe('*');
  expect(headers.has('access-control-allow-credentials')).toBe(false);
  if (status === 405) expect(headers.get('allow')).toBe(methods);
  expect(status === 405).toBe(!methods.split(', ').includes(method));
  if (status === 429 || status === 503) expect(headers.get('retry-after')).toMatch(/^[1-9]\d*$/);
  if (method === 'HEAD') expect(answer).toBe('');

  if (status < 400) {
    expect(success).toContain(status);
    if (status === 204) expect([method, answer]).toEqual(['OPTIONS', '']);
    else if (status === 303)
      expect(headers.get('location')).toMatch(/^https:\/\/([\w-]+\.preview|www)\.example\.no\//);
    else if (method !== 'HEAD') checkSuccess(name, type, answer, requestId);
    return status;
  }
  const codes = (problems as Readonly<Record<number, readonly string[]>>)[status];
  expect(codes, `status ${status}: ${answer.slice(0, 200)}`).toBeDefined();
  if (status === 502) expect(String(call.body)).toContain('[[');
  if (method === 'HEAD') return status;
  const accept = request.headers.get('accept');
  // A form without Accept is a page's own; whatever else is asked for, a program reads the answer.
  const isPage = accept === null ? isFormType(request.headers.get('content-type')) : accept === PAGE;
  if (name === 'inquiry' && isPage) {
    expect(type).toBe('text/html; charset=utf-8');
    expect(answer).toContain(`Referanse: ${requestId}<`);
    return status;
  }
  expect(type).toBe('application/problem+json');
  checkProblem(JSON.parse(answer), status, codes!, requestId);
  return status;
}

function checkSuccess(name: Name, type: string | null, answer: string, requestId: string | null): void {
  if (type === 'text/html; charset=utf-8') return expect(answer).toContain('Takk for henvendelsen');
  if (type?.startsWith('text/event-stream')) {
    expect(answer).toMatch(/^(event: delta\ndata: .*\n\n)*event: (done|error)\ndata: .*\n\n$/);
    const last = /event: error\ndata: (.*)\n\n$/.exec(answer)?.[1];
    if (last !== undefined) checkProblem(JSON.parse(last), 502, CONTRACT.chat.problems[502], requestId);
    return;
  }
  expect(type).toBe(JSON_TYPE);
  const whole = {
    chat: { text: expect.stringMatching(/\S/) },
    inquiry: { ok: true },
    health: {
      ok: true,
      uptime: expect.any(Number),
      llmConfigured: expect.any(Boolean),
      emailConfigured: expect.any(Boolean),
      auditConfigured: true,
    },
  }[name];
  expect(JSON.parse(answer)).toStrictEqual(whole);
}

function checkProblem(
  problem: Readonly<Record<string, unknown>>,
  status: number,
  codes: readonly string[],
  requestId: string | null,
): void {
  const { issues, scope, ...fields } = problem;
  // Whose limit it was.
  if (scope !== undefined)
    expect([status, scope]).toEqual([429, expect.stringMatching(/^(visitor|network|service)$/)]);
  expect(fields).toStrictEqual({
    type: 'about:blank',
    title: STATUS_CODES[status],
    status,
    code: expect.toSatisfy((code: string) => codes.includes(code)),
    detail: expect.stringMatching(/\S/),
    requestId,
  });
  if (fields['code'] !== 'validation_failed') return expect(issues).toBeUndefined();
  expect((issues as unknown[]).length).toBeGreaterThan(0);
}

/** Fails with the one request of the batch that it was. */
async function checkNamed(name: Name, fetch: Endpoint['fetch'], call: Call): Promise<number> {
  try {
    return await check(name, fetch, call);
  } catch (cause) {
    throw new Error(`${String(cause)}\n  answering ${fc.stringify(call).slice(0, 2000)}`, { cause });
  }
}

const AT_ONCE = 50;

/**
 * Asks at least so many times, some of them side by side, and checks each answer.
 *
 * @returns how often each status came.
 */
async function fuzz(name: Name, fetch: Endpoint['fetch'], least: number): Promise<Record<number, number>> {
  const statuses: Record<number, number> = {};
  let asked = 0;
  // Of one length, so that the number of runs tells the number of requests.
  const batch = fc.array(callsOf(name), { minLength: AT_ONCE, maxLength: AT_ONCE, size: 'max' });
  await fc.assert(
    fc.asyncProperty(batch, async (calls) => {
      asked += calls.length;
      for (const status of await Promise.all(calls.map((call) => checkNamed(name, fetch, call)))) {
        statuses[status] = (statuses[status] ?? 0) + 1;
      }
      expect(unhandled).toEqual([]);
    }),
    { numRuns: Math.ceil(least / AT_ONCE) },
  );
  expect(asked).toBeGreaterThanOrEqual(least);
  return statuses;
}

const numbers = (statuses: Record<number, number>) => Object.keys(statuses).map(Number);

describe('whatever is sent, the answer is one of the contract’s', () => {
  test('the chat answers whatever is sent within the contract', { timeout: 300_000 }, async () => {
    const { fetch, faults } = await deployed('chat', await configured('chat'));
    const statuses = await fuzz('chat', fetch, 10_000);
    // Every branch was seen, and no limit swallowed the run.
    expect(numbers(statuses)).toEqual([200, 204, 400, 403, 405, 413, 415, 502]);
    expect(faults).toEqual([]);
  });

  test('the inquiry answers whatever is sent within the contract', { timeout: 300_000 }, async () => {
    const { fetch, faults } = await deployed('inquiry', await configured('inquiry'));
    const { database } = await import('../../lib/components/database.ts');
    close = async () => await ((await database()).$client as pg.Pool).end();
    const statuses = await fuzz('inquiry', fetch, 10_000);
    expect(numbers(statuses)).toEqual([200, 204, 303, 400, 403, 405, 413, 415, 422]);
    expect(faults).toEqual([]);
  });

  test('the health answers whatever is sent within the contract', { timeout: 300_000 }, async () => {
    const { fetch, faults } = await deployed('health', await configured('health'));
    const statuses = await fuzz('health', fetch, 10_000);
    expect(numbers(statuses)).toEqual([200, 204, 405]);
    expect(faults).toEqual([]);
  });

  test.each(['chat', 'inquiry'] as const)(
    'the function %s without keys answers within the contract, also past its limit',
    async (name) => {
      const few = { CHAT_RATE_PER_MINUTE: '500', INQUIRY_RATE_PER_10_MINUTES: '500' };
      const { fetch, faults } = await deployed(name, { ...UNSET, ...few, DATABASE_URL: 'memory://' });
      const statuses = await fuzz(name, fetch, 1500);
      expect(numbers(statuses)).toEqual(expect.arrayContaining([400, 429, 503]));
      expect(faults).toEqual([]);
    },
  );
});
