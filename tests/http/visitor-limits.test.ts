import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  onTestFinished,
  test,
  vi,
} from 'vitest';

import { secured } from '../../dev/serve-output/https.ts';
import { startMessagesApi } from '../../dev/stand-ins/messages-api.ts';
import type { MessagesApi } from '../../dev/stand-ins/messages-api.ts';
import { startRedisRest } from '../../dev/stand-ins/redis-rest.ts';
import { startSendGrid } from '../../dev/stand-ins/sendgrid.ts';
import type { ReceivedMail, SendGridStandIn } from '../../dev/stand-ins/sendgrid.ts';
import { TRAP } from '../../lib/edge/inquiry/inquiry-request.ts';
import { startTurnstile } from '../../dev/stand-ins/turnstile.ts';
import type { TurnstileBehaviour, TurnstileStandIn } from '../../dev/stand-ins/turnstile.ts';
import { freePort } from '../support/postgres.ts';
import { redisServerPath, startRedis } from '../support/redis.ts';

const NOON = Date.UTC(2026, 10, 21, 12);

const inquiry = {
  name: 'Sigrid Aasen',
  email: 'sigrid.aasen@example.no',
  organization: 'Nordvåg kommune',
  topic: 'Demo',
  persona: 'driftsleder',
  source: 'book-demo',
};
const question = { system: 'Om lokalene.', messages: [{ role: 'user', content: 'Hei' }] };

let model: MessagesApi;
let sendgrid: SendGridStandIn;

beforeAll(async () => {
  model = await startMessagesApi();
  sendgrid = await startSendGrid();
});
afterAll(async () => {
  await model.close();
  await sendgrid.close();
});
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date'], now: NOON });
  vi.spyOn(process.stdout, 'write').mockReturnValue(true);
  sendgrid.behave([]);
  (sendgrid.mails as ReceivedMail[]).length = 0;
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllEnvs();
});

interface Answer {
  readonly status: number;
  readonly code?: string;
  readonly scope?: string;
  readonly detail?: string;
  readonly headers: Headers;
}

/** The deployed function, anew, in an environment of its own. */
async function start(name: 'chat' | 'inquiry', variables: Record<string, string> = {}) {
  const { variables: environment, close } = await secured({
    VERCEL: '1',
    DATABASE_URL: '',
    CORS_ORIGINS: '',
    UPSTASH_REDIS_REST_URL: '',
    UPSTASH_REDIS_REST_TOKEN: '',
    ANTHROPIC_API_KEY: 'sk-ant-x',
    ANTHROPIC_BASE_URL: model.url,
    SENDGRID_API_KEY: 'SG.x',
    SENDGRID_BASE_URL: sendgrid.url,
    ADMIN_EMAIL: 'admin@example.no',
    FROM_EMAIL: 'noreply@example.no',
    // For the certificate in front of the stand-ins: a deployment calls them by HTTPS only.
    NODE_TLS_REJECT_UNAUTHORIZED: '0',
    ...variables,
  });
  onTestFinished(close);
  for (const [variable, value] of Object.entries(environment)) vi.stubEnv(variable, value);
  vi.resetModules();
  const { default: endpoint } = await (name === 'chat'
    ? import('../../api/chat.ts')
    : import('../../api/inquiry.ts'));
  return async (address: string, body: object, headers: Record<string, string> = {}): Promise<Answer> => {
    const request = new Request(`https://postbud.example/api/${name}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-forwarded-for': address, ...headers },
      body: JSON.stringify(body),
    });
    const response = await endpoint.fetch(request);
    const problem = (await response.json()) as Pick<Answer, 'code' | 'scope' | 'detail'>;
    return { ...problem, status: response.status, headers: response.headers };
  };
}

/** As many inquiries as one wants, none like another. */
let written = 0;
const another = () => ({ ...inquiry, topic: `Demo ${(written += 1)}` });

const allowed = (answers: readonly Answer[]) => answers.filter(({ status }) => status === 200).length;

/** The i-th /64 of a /56, and the i-th /56 of a /48. */
const ofHousehold = (index: number) => `2001:db8:1:${(0x2_00 + index).toString(16)}::1`;
const ofCompany = (index: number) => `2001:db8:1:${(index * 0x1_00).toString(16)}::1`;

/** The i-th address of a /24, and an address of the i-th /24. */
const ofSubnet = (index: number) => `198.51.100.${index}`;
const ofAnySubnet = (index: number) => `10.0.${index}.7`;

describe('the chat', () => {
  async function ask(variables: Record<string, string>, addressOf: (index: number) => string, calls: number) {
    const post = await start('chat', variables);
    const answers: Answer[] = [];
    for (let call = 0; call < calls; call++) answers.push(await post(addressOf(call), question));
    return { post, answers };
  }

  test.each([
    ['/24', ofSubnet],
    ['/48', ofCompany],
  ])('the 75 addresses of a %s network have 75 calls of the day’s 1,500', async (_, addressOf) => {
    const { post, answers } = await ask({}, (index) => addressOf(index % 80), 160);
    expect(allowed(answers)).toBe(75);
    expect(answers.at(-1)).toMatchObject({ status: 429, code: 'rate_limited', scope: 'network' });
    expect(answers.at(-1)?.headers.get('ratelimit')).toBe('"chat-network";r=0;t=43200');
    expect(answers.at(-1)?.headers.get('retry-after')).toBe('43200');
    expect((await post('203.0.113.1', question)).status).toBe(200);
    expect((await post('2001:db8:2::1', question)).status).toBe(200);
  });

  test('it takes twenty networks to use up the chat’s day', async () => {
    const { answers } = await ask({ CHAT_DAILY_BUDGET: '40' }, (index) => ofAnySubnet(index % 21), 63);
    expect(allowed(answers)).toBe(40);
    expect(answers.at(-1)).toMatchObject({ scope: 'service' });
  });

  test.skipIf(!redisServerPath)('instances with one Redis count a network together', async () => {
    const server = await startRedis();
    const rest = await startRedisRest(server.port);
    try {
      const redis = { UPSTASH_REDIS_REST_URL: rest.url, UPSTASH_REDIS_REST_TOKEN: rest.token };
      const variables = { ...redis, CHAT_DAILY_BUDGET: '60' };
      const first = await ask(variables, ofSubnet, 2);
      const { post, answers } = await ask(variables, ofSubnet, 2);
      expect([...first.answers, ...answers].map(({ status }) => status)).toEqual([200, 200, 200, 429]);
      expect(answers.at(-1)).toMatchObject({ scope: 'network' });
      expect((await post('203.0.113.1', question)).status).toBe(200);
    } finally {
      await rest.stop();
      await server.stop();
    }
  });

  test('an invalid question costs a network nothing of its day', async () => {
    const { post, answers } = await ask({ CHAT_DAILY_BUDGET: '20' }, () => '2001:db8:9::1', 0);
    for (let call = 0; call < 3; call++) expect((await post('192.0.2.1', {})).status).toBe(400);
    expect([(await post('192.0.2.2', question)).status, answers.length]).toEqual([200, 0]);
  });

  test('a chat without a model costs a network nothing of its day', async () => {
    const nowhere = `https://127.0.0.1:${await freePort()}`;
    const { answers } = await ask({ CHAT_DAILY_BUDGET: '40', ANTHROPIC_BASE_URL: nowhere }, ofHousehold, 20);
    expect(new Set(answers.map(({ code }) => code))).toEqual(new Set(['provider_unreachable']));
  });
});

describe('the form for inquiries', () => {
  test('a /56 network may send ten inquiries in ten minutes, and a /48 network twenty', async () => {
    const post = await start('inquiry');
    const household: Answer[] = [];
    for (let index = 0; index < 100; index++) household.push(await post(ofHousehold(index), another()));
    expect(allowed(household)).toBe(10);
    expect(household.at(-1)?.headers.get('ratelimit')).toBe('"inquiry-56";r=0;t=600');
    const company: Answer[] = [];
    for (let index = 10; index < 110; index++) company.push(await post(ofCompany(index), another()));
    expect(allowed(company)).toBe(10);
    expect(company.at(-1)?.headers.get('ratelimit')).toBe('"inquiry-48";r=0;t=600');
    expect(sendgrid.mails).toHaveLength(20);
    expect((await post('2001:db8:2::1', another())).status).toBe(200);
  });

  test('the people of a town hall behind one address have 25 inquiries a day, and no other network loses one', async () => {
    const post = await start('inquiry');
    const answers: Answer[] = [];
    for (let turn = 0; turn < 7; turn++) {
      vi.setSystemTime(NOON + turn * 600_000);
      for (let index = 0; index < 5; index++) answers.push(await post('192.0.2.7', another()));
    }
    expect(allowed(answers)).toBe(25);
    expect(answers.at(-1)).toMatchObject({
      scope: 'network',
      detail:
        'Too many calls from your network: 25 are allowed in a day. Try again in 11 hours, at midnight UTC.',
    });
    expect((await post('192.0.2.8', another())).status).toBe(429);
    expect((await post('198.51.100.1', another())).status).toBe(200);
  });

  test('no more mails are sent in a day than INQUIRY_DAILY_BUDGET, over all visitors', async () => {
    const post = await start('inquiry', { INQUIRY_DAILY_BUDGET: '5' });
    const answers = await Promise.all(
      Array.from({ length: 30 }, (_, index) => post(ofAnySubnet(index), another())),
    );
    expect([allowed(answers), sendgrid.mails.length]).toEqual([5, 5]);
    const refused = answers.find(({ status }) => status !== 200)!;
    expect([refused.status, refused.code]).toEqual([429, 'rate_limited']);
    expect(refused.headers.get('ratelimit')).toBe('"inquiry-budget";r=0;t=43200');
    expect(refused.headers.get('ratelimit-policy')).toBe(
      '"inquiry-network";q=1;w=86400, "inquiry-budget";q=5;w=86400',
    );
    expect(refused.headers.get('retry-after')).toBe('43200');
    vi.setSystemTime(NOON + 43_200_000);
    expect((await post(ofAnySubnet(99), another())).status).toBe(200);
  });

  test('the budget of inquiries is 500 mails a day by default', async () => {
    vi.resetModules();
    const { readConfig } = await import('../../lib/platform/config.ts');
    expect(readConfig().rates.inquiryDailyBudget).toBe(500);
    expect(() => readConfig({ INQUIRY_DAILY_BUDGET: 'many' }).rates.inquiryDailyBudget).toThrow(
      'INQUIRY_DAILY_BUDGET must be a whole number from 1 to 10000000',
    );
  });

  test('repeated, invalid and trapped inquiries cost the day nothing', async () => {
    const post = await start('inquiry', { INQUIRY_DAILY_BUDGET: '2', INQUIRY_RATE_PER_10_MINUTES: '50' });
    const first = another();
    await post('192.0.1.7', first, { 'idempotency-key': 'k' });
    for (const key of ['k', 'another', '']) {
      const again = await post('192.0.1.7', first, { 'idempotency-key': key });
      expect([again.status, again.headers.get('idempotent-replayed')]).toEqual([200, 'true']);
    }
    expect((await post('192.0.2.7', { ...another(), [TRAP]: 'https://spam.example' })).status).toBe(200);
    expect((await post('192.0.3.7', {})).status).toBe(400);
    expect((await post('192.0.4.7', another())).status).toBe(200);
    expect((await post('192.0.5.7', another())).code).toBe('rate_limited');
    // It is answered from memory: it needs no mail.
    expect((await post('192.0.1.7', first)).status).toBe(200);
    expect(sendgrid.mails).toHaveLength(2);
  });

  test.each<[what: string, behaviours: (number | 'lose' | 'reset')[], isGivenBack: boolean]>([
    ['refuses the key', [401], true],
    ['refuses the mail', [400], true],
    ['is full twice', [429, 429], true],
    ['is away twice', [503, 503], true],
    ['is away, and then refuses the key', [503, 401], true],
    ['is away, and then may have accepted it', [503, 'lose'], false],
    ['may have accepted it', [500], false],
    ['hangs up', ['reset'], false],
  ])('a mail provider that %s (%j) gives the day its mail back: %s', async (_, behaviours, isGivenBack) => {
    const post = await start('inquiry', { INQUIRY_DAILY_BUDGET: '1' });
    sendgrid.behave(behaviours);
    expect((await post('192.0.2.1', another())).status).toBe(502);
    sendgrid.behave([]);
    expect((await post('192.0.2.1', another())).status).toBe(isGivenBack ? 200 : 429);
    expect((await post('198.51.100.1', another())).status).toBe(429);
  });

  test('an unreachable mail provider costs the day nothing', async () => {
    const nowhere = `https://127.0.0.1:${await freePort()}`;
    const post = await start('inquiry', { INQUIRY_DAILY_BUDGET: '1', SENDGRID_BASE_URL: nowhere });
    for (const address of ['192.0.2.1', '192.0.2.2'])
      expect((await post(address, another())).code).toBe('email_unreachable');
  });
});

describe('a proof that a person calls', () => {
  const SECRET = '0x4AAAAAAA-secret-of-turnstile';
  const PAGE = 'www.example.no';
  let turnstile: TurnstileStandIn;

  beforeEach(async () => {
    turnstile = await startTurnstile();
    turnstile.behave('verify', { hostname: PAGE, action: 'chat' });
    return () => turnstile.close();
  });

  const startVerifying = (name: 'chat' | 'inquiry', variables: Record<string, string>) =>
    start(name, {
      TURNSTILE_SECRET_KEY: SECRET,
      TURNSTILE_BASE_URL: turnstile.url,
      CORS_ORIGINS: `https://${PAGE}:8443`,
      ...variables,
    });
  const token = (value: string) => ({ 'cf-turnstile-response': value });
  const outcome = ({ status, code }: Answer) => code ?? status;

  test('is asked for above half of a visitor’s limit, and each token is taken once', async () => {
    const post = await startVerifying('chat', { CHAT_RATE_PER_MINUTE: '10' });
    const ask = async (headers = {}, body: object = question) =>
      outcome(await post('192.0.2.7', body, headers));
    for (let call = 1; call <= 5; call++) expect(await ask()).toBe(200);
    expect(await ask({}, {})).toBe('validation_failed');
    expect(turnstile.asked).toEqual([]);
    expect(await ask()).toBe('verification_required');
    expect([await ask(token('a')), await ask(token('a'))]).toEqual([200, 'verification_failed']);
    expect(turnstile.asked[0]).toMatchObject({ secret: SECRET, response: 'a', remoteip: '192.0.2.7' });
    expect(await ask(token('b'.repeat(2049)))).toBe('verification_failed');
    expect(await ask(token('c'))).toBe('rate_limited');
    expect(outcome(await post('198.51.100.1', question))).toBe(200);
  });

  test.each([
    ['another page', { hostname: 'elsewhere.example', action: 'chat' }],
    ['another widget of the page', { hostname: PAGE, action: 'login' }],
  ])('is refused where the token is of %s', async (_, said) => {
    const post = await startVerifying('chat', { CHAT_RATE_PER_MINUTE: '1' });
    turnstile.behave('verify', said);
    expect(outcome(await post('192.0.2.7', question, token('a')))).toBe('verification_failed');
  });

  test.each<TurnstileBehaviour>(['hang', 'reset', 'babble', 'fail', 503])(
    'is not missed where Turnstile is to %s, which is logged without the secret',
    async (how) => {
      const written = vi.spyOn(process.stdout, 'write');
      const post = await startVerifying('chat', { CHAT_RATE_PER_MINUTE: '1' });
      turnstile.behave(how);
      expect(outcome(await post('192.0.2.7', question, token('a')))).toBe(200);
      expect(outcome(await post('192.0.2.7', question, token('b')))).toBe('rate_limited');
      const lines = written.mock.calls.map(([line]) => String(line)).join('');
      expect(lines).toContain('Turnstile did not verify a call, which passed');
      expect(lines).not.toContain(SECRET);
    },
  );

  test('that is missing costs a network nothing of its day, and a form sends it as a field', async () => {
    // A share of one inquiry is above half with the first.
    const post = await startVerifying('inquiry', { INQUIRY_DAILY_BUDGET: '20' });
    turnstile.behave('verify', { hostname: PAGE, action: '' });
    const sent = another();
    expect(outcome(await post('192.0.2.7', sent))).toBe('verification_required');
    expect(outcome(await post('192.0.2.7', { ...sent, ...token('a') }))).toBe(200);
    expect(outcome(await post('192.0.2.7', { ...sent, ...token('b') }))).toBe(200);
    expect([sendgrid.mails.length, turnstile.asked.length]).toEqual([1, 1]);
    expect(JSON.stringify(sendgrid.mails)).not.toContain('turnstile');
  });

  test('that is asked for uses up no inquiry of its visitor', async () => {
    const post = await startVerifying('inquiry', {});
    turnstile.behave('verify', { hostname: PAGE, action: '' });
    const outcomes: unknown[] = [];
    for (let number = 1; number <= 5; number += 1) {
      const sent = another();
      const first = outcome(await post('192.0.2.7', sent));
      const isAsked = first === 'verification_required';
      outcomes.push(isAsked ? outcome(await post('192.0.2.7', { ...sent, ...token(`${number}`) })) : first);
    }
    expect(outcomes).toEqual([200, 200, 200, 200, 200]);
  });

  test.each([
    ['1x0000000000000000000000000000000AA', 200],
    ['2x0000000000000000000000000000000AA', 'verification_failed'],
    ['3x0000000000000000000000000000000AA', 'verification_failed'],
  ])('is taken as Cloudflare’s secret for tests %s has it', async (secret, expected) => {
    const post = await startVerifying('chat', { CHAT_RATE_PER_MINUTE: '1', TURNSTILE_SECRET_KEY: secret });
    turnstile.behave('verify');
    expect(outcome(await post('192.0.2.7', question, token('XXXX.DUMMY.TOKEN.XXXX')))).toBe(expected);
  });

  test('is never asked for without a secret', async () => {
    const post = await startVerifying('chat', { CHAT_RATE_PER_MINUTE: '1', TURNSTILE_SECRET_KEY: '' });
    expect(outcome(await post('192.0.2.7', question))).toBe(200);
    expect(turnstile.asked).toEqual([]);
  });
});

test.each(['chat', 'inquiry'] as const)(
  'a request to %s has an id of its own, whatever the caller calls it',
  async (name) => {
    const post = await start(name);
    for (const body of [name === 'chat' ? question : another(), {}]) {
      const { headers } = await post('192.0.2.7', body, {
        'x-request-id': 'mine',
        'x-vercel-id': 'fra1::mine',
      });
      expect(headers.get('x-request-id')).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
    }
  },
);

describe('typing errors', () => {
  const wrong = () => ({ ...another(), email: 'sigrid' });

  test('typing errors leave a visitor the five inquiries', async () => {
    const post = await start('inquiry');
    const send = (body: object) => post('192.0.2.7', body);
    for (let call = 1; call <= 20; call++) {
      const { status, headers } = await send(wrong());
      expect([status, headers.get('ratelimit')]).toEqual([400, '"inquiry";r=5;t=600']);
    }
    for (let call = 1; call <= 5; call++) {
      const { status, headers } = await send(another());
      expect([status, headers.get('ratelimit')]).toEqual([200, `"inquiry";r=${5 - call};t=600`]);
    }
    const sixth = await send(another());
    expect([sixth.status, sixth.headers.get('ratelimit')]).toEqual([429, '"inquiry";r=0;t=600']);
    // The visitor comes before the fields.
    expect((await send(wrong())).status).toBe(429);
  });

  test('fifty typing errors beyond the inquiries are refused as a flood, for that visitor only', async () => {
    const post = await start('inquiry');
    const answers = [];
    for (let call = 1; call <= 56; call++) answers.push(await post('192.0.2.7', wrong()));
    expect(answers.map(({ status }) => status)).toEqual([...Array(55).fill(400), 429]);
    expect(answers[53]?.headers.get('ratelimit')).toBe('"inquiry-tries";r=1;t=600');
    expect(answers[55]?.headers.get('ratelimit')).toBe('"inquiry-tries";r=0;t=600');
    expect((await post('192.0.2.8', another())).status).toBe(200);
  });

  test('bodies that are not JSON leave a visitor the inquiries', async () => {
    const post = await start('inquiry', { INQUIRY_RATE_PER_10_MINUTES: '1' });
    const form = { 'content-type': 'application/json; charset=utf-8' };
    for (let call = 1; call <= 3; call++) expect((await post('192.0.2.7', [], form)).status).toBe(400);
    expect((await post('192.0.2.7', another())).status).toBe(200);
  });

  /** What stands between the calls of a burst is another for each place that they are counted in. */
  async function burst(variables: Record<string, string>) {
    const post = await start('inquiry', variables);
    for (let turn = 0; turn < 4; turn++) {
      const bodies = Array.from({ length: 10 }, (_, index) => (index % 2 === 0 ? wrong() : another()));
      await Promise.all(bodies.map((body) => post('192.0.2.7', body)));
    }
    expect(sendgrid.mails.length).toBeLessThanOrEqual(5);
    // A burst is over: what was not valid holds nothing of the five.
    while ((await post('192.0.2.7', another())).status === 200);
    expect(sendgrid.mails).toHaveLength(5);
  }

  test('typing errors among many inquiries at once let exactly five through', async () => {
    await burst({});
  });

  test.skipIf(!redisServerPath)(
    'typing errors among many inquiries at once, counted in Redis, let exactly five through',
    async () => {
      const server = await startRedis();
      const rest = await startRedisRest(server.port);
      try {
        await burst({ UPSTASH_REDIS_REST_URL: rest.url, UPSTASH_REDIS_REST_TOKEN: rest.token });
        expect(JSON.stringify(rest.commands)).not.toContain('192.0.2.7');
      } finally {
        await rest.stop();
        await server.stop();
      }
    },
  );
});
