import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { inspect, isDeepStrictEqual } from 'node:util';

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, vi } from 'vitest';

import { startSendGrid } from '../../dev/stand-ins/sendgrid.ts';
import type { Behaviour, ReceivedMail, SendGridStandIn } from '../../dev/stand-ins/sendgrid.ts';
import { replay } from '../../lib/bus/deliveries/operations/replay.ts';
import { inquiriesBy } from '../../lib/components/inquiries.ts';
import { watchIncidents } from '../../lib/components/incidents/watch.ts';
import { problemForVisitor } from '../../lib/edge/inquiry/form-answers.ts';
import { handleInquiry } from '../../lib/edge/inquiry/handle-inquiry.ts';
import type { Inquiry } from '../../lib/edge/inquiry/handle-inquiry.ts';
import { OnceAcrossProcesses } from '../../lib/edge/inquiry/once-across-processes.ts';
import { OncePerProcess } from '../../lib/edge/inquiry/once.ts';
import { TRAP } from '../../lib/edge/inquiry/inquiry-request.ts';
import { inquiryRoute } from '../../lib/edge/inquiry/route.ts';
import type { MailSettings } from '../../lib/platform/config.ts';
import { guardedEndpoint } from '../../lib/platform/http/guarded-endpoint.ts';
import { Problem } from '../../lib/platform/http/problem.ts';
import { logTo } from '../../lib/platform/log.ts';
import { sendMail } from '../../lib/platform/mail/send-mail.ts';
import { MINUTE, SECOND } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { drain, rows } from '../support/bus.ts';
import { countDeliveries } from '../support/records.ts';
import type { Bus } from '../support/bus.ts';
import { freePort } from '../support/postgres.ts';
import { endLimit, skipPauses } from '../support/waits.ts';

/** In the key and every field; must be in no answer and no log line. */
const CANARY = 'kanarifugl';

const body = {
  name: `Kari ${CANARY}`,
  email: `${CANARY}@bærum.kommune.no`,
  organization: `${CANARY} kommune`,
  topic: `Demo ${CANARY}`,
  phone: '+47 400 00 456',
  persona: 'driftsleder',
  message: `Hei ${CANARY}`,
  source: 'kontakt-salg',
};

const SITE = 'https://www.example.no';

let sendgrid: SendGridStandIn;
let written: string[];
let answered: string[];

beforeAll(async () => void (sendgrid = await startSendGrid()));
afterAll(() => sendgrid.close());

beforeEach(async () => {
  written = [];
  answered = [];
  sendgrid.behave([]);
  (sendgrid.mails as ReceivedMail[]).length = 0;
  logTo((line) => written.push(JSON.stringify(line)));
  for (const level of ['log', 'info', 'warn', 'error', 'debug'] as const) {
    vi.spyOn(console, level).mockImplementation((...said: unknown[]) => void written.push(inspect(said)));
  }
});

afterEach(() => {
  vi.unstubAllEnvs();
  expect([...written, ...answered].join('\n')).not.toContain(CANARY);
});

const settings = (fields: Partial<MailSettings> = {}): MailSettings => ({
  apiKey: `SG.${CANARY}`,
  baseUrl: sendgrid.url,
  residency: 'global',
  from: 'noreply@example.no',
  admin: 'admin@example.no',
  cc: 'kopi@example.no',
  ...fields,
});

/** The function as `api/inquiry.ts` composes it, with its own memory of what was sent. */
function inquiryFunction(parts: Partial<Inquiry> = {}) {
  const cors = { origins: [SITE], anyLocalhost: false };
  const sent = new OncePerProcess();
  const inquiry = guardedEndpoint({
    methods: ['POST'],
    isAnonymous: true,
    cors: () => cors,
    body: inquiryRoute.body,
    problemAnswer: problemForVisitor,
    handle: async (request, { requestId, body }) =>
      await handleInquiry({
        request,
        requestId,
        body,
        visitor: request.headers.get('x-visitor') ?? '',
        mail: settings(),
        sent,
        takeBudget: async () => ({
          giveBack: async () => undefined,
          spend: () => undefined,
          isAboveHalf: false,
        }),
        count: () => undefined,
        cors,
        database: undefined,
        waitUntil: () => undefined,
        ...parts,
      }),
  });
  return async (sentBody: object | string, headers: Record<string, string> = {}) => {
    const isForm = sentBody instanceof URLSearchParams || sentBody instanceof FormData;
    const request = new Request('https://api.example.no/api/inquiry', {
      method: 'POST',
      body: typeof sentBody === 'string' || isForm ? sentBody : JSON.stringify(sentBody),
      headers: isForm ? headers : { 'content-type': 'application/json', ...headers },
    });
    const response = await inquiry.fetch(request);
    const answer = await response.clone().text();
    answered.push(answer, JSON.stringify([...response.headers]));
    return { status: response.status, headers: response.headers, text: answer };
  };
}

const codeOf = (answer: string): string => JSON.parse(answer).code;

describe('an inquiry', () => {
  test('an inquiry is mailed to the administrator and a copy’s reader, with replies to the visitor', async () => {
    const { status, text } = await inquiryFunction()(body);
    expect([status, text]).toEqual([200, '{"ok":true}']);
    const [mail] = sendgrid.mails;
    expect(mail).toMatchObject({
      personalizations: [{ to: [{ email: 'admin@example.no' }], cc: [{ email: 'kopi@example.no' }] }],
      from: { email: 'noreply@example.no' },
      reply_to: { email: `${CANARY}@xn--brum-voa.kommune.no`, name: body.name },
      subject: `[kontakt-salg] ${body.topic} – ${body.organization}`,
      categories: ['inquiry', 'kontakt'],
      tracking_settings: {
        click_tracking: { enable: false, enable_text: false },
        open_tracking: { enable: false },
        subscription_tracking: { enable: false },
        ganalytics: { enable: false },
      },
    });
    expect(mail!.content.map(({ type }) => type)).toEqual(['text/plain', 'text/html']);
    for (const { value } of mail!.content) expect(value).toContain(body.message);
  });

  test.each([
    ['Kari "Kis" <evil@example.com>', 'Kari Kis evil example.com'],
    ['Nordmann, Kari; x', 'Nordmann Kari x'],
    ['Kari\r\nBcc: evil@example.com', 'Kari Bcc evil example.com'],
    ["Åse-Marie O'Brien", "Åse-Marie O'Brien"],
    ['"<>"', undefined],
  ])('an inquiry from %j has the reply name %j', async (name, shown) => {
    await inquiryFunction()({ ...body, name });
    expect(sendgrid.mails[0]?.reply_to?.name).toBe(shown);
  });

  test('an inquiry may have every field at its longest, in any script', async () => {
    const long = (most: number) => '漢'.repeat(most);
    const fullest = {
      ...body,
      name: long(120),
      organization: long(200),
      topic: long(200),
      phone: long(40),
      persona: long(80),
      summary: long(4000),
      message: long(10_000),
      contextSummary: long(8000),
    };
    const post = inquiryFunction();
    expect((await post(fullest)).status).toBe(200);
    expect((await post(new URLSearchParams({ ...fullest, name: long(119) }))).status).toBe(200);
    expect(sendgrid.mails).toHaveLength(2);
  });

  test('an inquiry with wrong fields is refused with an issue for each', async () => {
    const { status, text } = await inquiryFunction()({ ...body, email: CANARY, topic: '', source: CANARY });
    expect(status).toBe(400);
    expect(JSON.parse(text)).toMatchObject({
      code: 'validation_failed',
      issues: [
        { path: 'email', pointer: '/email', code: 'invalid_email' },
        { path: 'topic', code: 'too_small' },
        { path: 'source', code: 'invalid_source' },
      ],
    });
    expect(sendgrid.mails).toEqual([]);
  });

  test('an inquiry that falls into the trap is answered like any other and not mailed', async () => {
    const { status, text } = await inquiryFunction()({ ...body, [TRAP]: 'https://spam.example' });
    expect([status, text]).toEqual([200, '{"ok":true}']);
    expect(sendgrid.mails).toEqual([]);
  });

  test('an inquiry of an older page, whose field website a browser has filled in, is mailed', async () => {
    expect((await inquiryFunction()({ ...body, website: 'https://www.example.no' })).status).toBe(200);
    expect(sendgrid.mails).toHaveLength(1);
  });

  test('a valid inquiry is refused while no mail is configured', async () => {
    const post = inquiryFunction({ mail: undefined });
    const { status, text, headers } = await post(body);
    expect([status, codeOf(text), headers.get('retry-after')]).toEqual([503, 'email_not_configured', '600']);
    expect((await post({})).status).toBe(400);
  });
});

describe('a mail provider that', () => {
  // Before the second try.
  beforeEach(() => skipPauses(500));

  test.each<[string, Behaviour[], string]>([
    ['refuses the mail', [400], 'email_failed'],
    ['does not know the key', [401], 'email_failed'],
    ['does not know the sender', [403], 'email_failed'],
    ['redirects', ['redirect'], 'email_failed'],
    ['is full twice', [429, 429], 'email_failed'],
    ['is away twice', [503, 'babble'], 'email_failed'],
    ['fails', [500], 'email_failed'],
    ['does not answer', ['hang'], 'email_timeout'],
    ['stops within its answer', ['stall'], 'email_timeout'],
    ['hangs up', ['reset'], 'email_unreachable'],
  ])('a mail provider that %s leads to a 502 without its words', async (_what, behaviours, code) => {
    sendgrid.behave(behaviours, 418);
    const before = sendgrid.calls();
    if (code === 'email_timeout') endLimit(8 * SECOND, () => sendgrid.calls() > before);
    const { status, text } = await inquiryFunction()(body);
    expect([status, codeOf(text)]).toEqual([502, code]);
    expect(sendgrid.calls() - before).toBe(behaviours.length);
    expect(written.join('\n')).toContain(code);
  });

  test.each<Behaviour>([429, 503])('a mail provider that answers %i once is asked again', async (status) => {
    sendgrid.behave([status]);
    expect((await inquiryFunction()(body)).status).toBe(200);
    expect(sendgrid.mails).toHaveLength(1);
  });

  test('the fields that a mail provider refuses are in the log, and nothing else', async () => {
    sendgrid.behave([400]);
    await inquiryFunction()(body);
    expect(written.join('\n')).toContain('from.email');
    expect(written.join('\n')).not.toContain('a fault on demand');
  });

  test('mail goes past the proxies of the environment, as all other calls of a function do', async () => {
    for (const name of ['HTTP_PROXY', 'http_proxy', 'ALL_PROXY'])
      vi.stubEnv(name, `http://127.0.0.1:${await freePort()}`);
    expect((await inquiryFunction()(body)).status).toBe(200);
    expect(sendgrid.mails).toHaveLength(1);
  });

  test('a mail provider that is not there is reported as unreachable', async () => {
    const baseUrl = `http://127.0.0.1:${await freePort()}`;
    const { status, text } = await inquiryFunction({ mail: settings({ baseUrl }) })(body);
    expect([status, codeOf(text)]).toEqual([502, 'email_unreachable']);
  });

  test('an error of a mail provider shows neither the key nor the mail', async () => {
    for (const behaviour of [400, 'hang', 'reset'] as const) {
      sendgrid.behave([behaviour]);
      const mail = {
        subject: CANARY,
        html: CANARY,
        text: CANARY,
        senderName: 'x',
        replyTo: { email: 'a@example.no', name: CANARY },
        categories: [],
        reference: 'x',
      };
      const error = await sendMail(settings(), mail, 200).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ name: 'MailNotSent' });
      expect(inspect(error, { depth: 9, showHidden: true })).not.toContain(CANARY);
    }
  });
});

describe('the same inquiry', () => {
  test('an inquiry sent twenty times at once is mailed once', async () => {
    const post = inquiryFunction();
    const answers = await Promise.all(Array.from({ length: 20 }, () => post(body)));
    expect(answers.map(({ status }) => status)).toEqual(Array(20).fill(200));
    expect(answers.filter(({ headers }) => headers.get('idempotent-replayed') === 'true')).toHaveLength(19);
    expect(sendgrid.mails).toHaveLength(1);
  });

  test('an inquiry with a new key at each click is mailed once', async () => {
    const post = inquiryFunction();
    await post(body, { 'idempotency-key': 'key-1' });
    const { headers } = await post(body, { 'idempotency-key': 'key-2' });
    expect(headers.get('idempotent-replayed')).toBe('true');
    expect(sendgrid.mails).toHaveLength(1);
  });

  test('the same inquiry from another visitor is another one', async () => {
    const post = inquiryFunction();
    await post(body, { 'x-visitor': 'a', 'idempotency-key': 'key-1' });
    await post(body, { 'x-visitor': 'b', 'idempotency-key': 'key-1' });
    expect(sendgrid.mails).toHaveLength(2);
  });

  test('the same inquiry after ten minutes is another one', async () => {
    let now = 0;
    const post = inquiryFunction({ sent: new OncePerProcess(undefined, () => now) });
    await post(body);
    now = 10 * 60 * 1000 - 1;
    await post(body);
    expect(sendgrid.mails).toHaveLength(1);
    now += 1;
    await post(body);
    expect(sendgrid.mails).toHaveLength(2);
  });

  test('an inquiry is sent after a failed try, whose answer its twins share', async () => {
    sendgrid.behave([400]);
    const post = inquiryFunction();
    const failed = await Promise.all([post(body), post(body)]);
    expect(failed.map(({ status }) => status)).toEqual([502, 502]);
    expect(new Set(failed.map(({ text }) => JSON.parse(text).requestId)).size).toBe(2);
    const { status, headers } = await post(body);
    expect([status, headers.get('idempotent-replayed')]).toEqual([200, null]);
    expect(sendgrid.mails).toHaveLength(1);
  });
});

test('one Idempotency-Key for two inquiries is refused', async () => {
  const post = inquiryFunction();
  await post(body, { 'idempotency-key': 'key-1' });
  const { status, text } = await post({ ...body, topic: 'Noe annet' }, { 'idempotency-key': 'key-1' });
  expect([status, codeOf(text)]).toEqual([422, 'idempotency_key_reused']);
});

describe('across processes', () => {
  /** Only what is used of Redis: SET with NX and EX, GET, DEL. It keeps the first answers to itself. */
  async function startRedis({ lostAnswers = 0 } = {}) {
    const values = new Map<string, string>();
    let answersLeft = lostAnswers;
    const answer = async (request: IncomingMessage, response: ServerResponse) => {
      const [command, key, value, ...flags] = JSON.parse(await text(request)) as string[];
      const name = command!.toLowerCase();
      let result: string | number | null = null;
      if (name === 'get') result = values.get(key!) ?? null;
      else if (name === 'del') result = Number(values.delete(key!));
      else if (!flags.includes('nx') || !values.has(key!)) {
        values.set(key!, value!);
        result = 'OK';
      }
      answersLeft -= 1;
      if (answersLeft >= 0) return;
      response.setHeader('content-type', 'application/json').end(JSON.stringify({ result }));
    };
    const server = createServer((request, response) => {
      void answer(request, response);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const stop = () => {
      server.close();
      server.closeAllConnections();
    };
    return { url, values, stop };
  }

  const processOn = (url: string) =>
    inquiryFunction({ sent: new OncePerProcess(new OnceAcrossProcesses({ url, token: CANARY })) });

  test('an inquiry to two processes is mailed once, and again after a failure', async () => {
    const redis = await startRedis();
    const posts = Array.from({ length: 4 }, () => processOn(redis.url));
    sendgrid.behave([400]);
    expect((await posts[0]!(body)).status).toBe(502);
    const answers = await Promise.all(posts.flatMap((post) => [post(body), post(body)]));
    redis.stop();
    expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(200));
    expect(answers.filter(({ headers }) => headers.get('idempotent-replayed') === 'true')).toHaveLength(7);
    expect(sendgrid.mails).toHaveLength(1);
    expect(JSON.stringify([...redis.values])).not.toContain(CANARY);
  });

  test('one Idempotency-Key for two inquiries is refused across processes', async () => {
    const redis = await startRedis();
    await processOn(redis.url)(body, { 'idempotency-key': 'k' });
    const answer = await processOn(redis.url)({ ...body, topic: 'x' }, { 'idempotency-key': 'k' });
    redis.stop();
    expect(answer.status).toBe(422);
  });

  test('an inquiry whose claim was made, but not confirmed, is mailed once', async () => {
    const redis = await startRedis({ lostAnswers: 1 });
    endLimit(800, () => redis.values.size > 0);
    expect((await processOn(redis.url)(body)).headers.get('idempotent-replayed')).toBeNull();
    const again = await processOn(redis.url)(body);
    redis.stop();
    expect([again.status, again.headers.get('idempotent-replayed')]).toEqual([200, 'true']);
    expect(sendgrid.mails).toHaveLength(1);
  });

  test('an inquiry that another process never stops sending is not mailed, and its visitor is told', async () => {
    const redis = await startRedis();
    await processOn(redis.url)(body);
    const claim = [...redis.values.values()][0]!.replace('done', 'doing');
    vi.useFakeTimers({ toFake: ['Date'] });
    onTestFinished(() => void vi.useRealTimers());
    skipPauses(250);
    vi.spyOn(redis.values, 'get').mockImplementation(() => {
      vi.setSystemTime(Date.now() + SECOND);
      return claim;
    });
    const { status, text } = await processOn(redis.url)(body);
    redis.stop();
    expect([status, codeOf(text)]).toEqual([502, 'email_timeout']);
    expect(sendgrid.mails).toHaveLength(1);
  });

  test.each([null, 'PONG', 'done', 'doing:', 'done:not a fingerprint', 1, true, {}])(
    'an inquiry is sent where Redis answers each command with %j',
    async (result) => {
      const server = createServer((_request, response) => {
        response.setHeader('content-type', 'application/json').end(JSON.stringify({ result }));
      });
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      skipPauses(250);
      const post = processOn(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
      expect((await post(body)).status).toBe(200);
      server.close();
      expect(sendgrid.mails).toHaveLength(1);
    },
  );

  test('an inquiry is sent where Redis does not answer', async () => {
    const post = processOn(`http://127.0.0.1:${await freePort()}`);
    expect((await post(body)).status).toBe(200);
    expect((await post(body)).status).toBe(200);
    expect(sendgrid.mails).toHaveLength(1);
  });
});

describe('a form', () => {
  const form = (fields: Record<string, string> = {}) => new URLSearchParams({ ...body, ...fields });

  test('a form is mailed, and its visitor sees a page without scripts', async () => {
    const { status, headers, text } = await inquiryFunction()(form(), { origin: SITE });
    expect(status).toBe(200);
    expect(headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(headers.get('content-security-policy')).toMatch(/^default-src 'none'; style-src 'sha256-[^']+';/);
    expect(text).toContain('Takk for henvendelsen');
    expect(sendgrid.mails).toHaveLength(1);
  });

  test.each([
    [`${SITE}/takk?fra=skjema`, `${SITE}/takk?fra=skjema`],
    ['/takk', `${SITE}/takk`],
  ])('a form goes on to %s', async (redirect, location) => {
    const { status, headers } = await inquiryFunction()(form({ redirect }), { origin: SITE });
    expect([status, headers.get('location')]).toEqual([303, location]);
  });

  test.each([
    'https://evil.example/',
    '//evil.example/',
    String.raw`\\evil.example`,
    'javascript:alert(1)',
    'data:text/html,x',
    `${SITE}.evil.example/`,
    `${SITE}@evil.example/`,
    'http://www.example.no/',
    'no url at all: //',
  ])('a form does not go on to %s', async (redirect) => {
    const { status, headers } = await inquiryFunction()(form({ redirect }));
    expect([status, headers.get('location')]).toEqual([200, null]);
  });

  test('a form with wrong fields is answered with a page that names them and repeats no value', async () => {
    const { status, text, headers } = await inquiryFunction()(form({ email: CANARY, name: '' }));
    expect(status).toBe(400);
    expect(text).toContain('<li>Navn mangler.</li><li>E-post er ikke en e-postadresse.</li>');
    expect(headers.get('x-request-id')).toBeTruthy();
  });

  test('a form that cannot be sent is answered with a page', async () => {
    sendgrid.behave([400]);
    const { status, text } = await inquiryFunction()(form());
    expect(status).toBe(502);
    expect(text).toContain('<h1>Henvendelsen ble ikke sendt</h1>');
  });

  test('a form of a foreign page is refused with a page', async () => {
    const { status, text } = await inquiryFunction()(form(), { origin: 'https://evil.example' });
    expect(status).toBe(403);
    expect(text).toContain('Skjemaet kan ikke brukes herfra');
  });

  const multipart = (fields: Record<string, string | Blob> = {}) => {
    const data = new FormData();
    for (const [name, value] of Object.entries({ ...body, ...fields })) data.append(name, value);
    return data;
  };
  const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8';
  const NAVIGATES = { accept: BROWSER, 'sec-fetch-mode': 'navigate' };
  const FETCHES = { accept: '*/*', 'sec-fetch-mode': 'cors' };

  test.each<[sent: string, headers: Record<string, string>, type: 'text/html' | 'application/json']>([
    ['a page without script', NAVIGATES, 'text/html'],
    ['an old browser without script', { accept: BROWSER }, 'text/html'],
    ['a browser that accepts anything', { accept: '*/*', 'sec-fetch-mode': 'navigate' }, 'text/html'],
    ['a program that says nothing', {}, 'text/html'],
    ['a script that asks for a page', { accept: 'text/html', 'sec-fetch-mode': 'cors' }, 'text/html'],
    ['fetch', FETCHES, 'application/json'],
    ['a script that asks for JSON', { ...FETCHES, accept: 'application/json' }, 'application/json'],
    ['axios', { ...FETCHES, accept: 'application/json, text/plain, */*' }, 'application/json'],
    ['jQuery', { accept: 'application/json, text/javascript, */*; q=0.01' }, 'application/json'],
    ['curl', { accept: '*/*' }, 'application/json'],
  ])(
    'a form from %s with the headers %j is answered, also with its errors, as %s',
    async (_, headers, type) => {
      for (const sent of [form, multipart]) {
        sendgrid.behave([]);
        const post = inquiryFunction();
        const asked = { ...headers, origin: SITE };
        const taken = await post(sent(), asked);
        expect([taken.status, taken.headers.get('content-type')?.split(';')[0]]).toEqual([200, type]);
        const wrong = await post(sent({ name: '' }), asked);
        const problemType = type === 'text/html' ? type : 'application/problem+json';
        expect([wrong.status, wrong.headers.get('content-type')?.split(';')[0]]).toEqual([400, problemType]);
        const next = await post(sent({ redirect: '/takk', topic: 'Neste' }), asked);
        expect(next.status).toBe(type === 'text/html' ? 303 : 200);
      }
    },
  );

  test('JSON is answered as a page to those who ask for one', async () => {
    const answer = await inquiryFunction()(body, { accept: 'text/html' });
    expect([answer.status, answer.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
  });

  test('a FormData has each field once, the last, and fields of the page’s own are ignored', async () => {
    const sent = multipart({ message: 'Blåbær\r\nog 🫐' });
    sent.append('topic', 'Siste');
    sent.append('__proto__', 'x');
    sent.append('samtykke', 'ja');
    expect((await inquiryFunction()(sent, FETCHES)).text).toBe('{"ok":true}');
    expect(sendgrid.mails[0]?.subject).toContain('Siste');
    expect(sendgrid.mails[0]?.content[0]?.value).toMatch(/> Blåbær\n> og 🫐/);
  });

  test('a file field that its visitor left alone is no file', async () => {
    const sent = multipart();
    sent.append('vedlegg', new File([], '', { type: 'application/octet-stream' }));
    expect((await inquiryFunction()(sent, FETCHES)).status).toBe(200);
  });

  test.each([
    ['a file', new File(['x'], 'kart.pdf', { type: 'application/pdf' })],
    ['an empty file with a name', new File([], 'tom.txt')],
    ['a blob', new Blob(['x'])],
  ])('a form with %s is refused by the name of its field', async (_, file) => {
    const { status, text } = await inquiryFunction()(multipart({ name: file, email: '' }), FETCHES);
    expect([status, JSON.parse(text)]).toMatchObject([
      400,
      {
        code: 'validation_failed',
        issues: [
          { path: 'name', pointer: '/name', code: 'file_not_allowed' },
          { path: 'name', code: 'invalid_type' },
          { path: 'email' },
        ],
      },
    ]);
    const page = await inquiryFunction()(multipart({ vedlegg: file }), NAVIGATES);
    expect([page.status, sendgrid.mails]).toEqual([400, []]);
    expect(page.text).toContain('<li>Skjemaet tar ikke imot filer.</li>');
  });

  test.each([
    ['without a boundary', 'multipart/form-data', '--x--'],
    ['with another boundary', 'multipart/form-data; boundary=y', '--x--\r\n'],
    [
      'that ends early',
      'multipart/form-data; boundary=x',
      '--x\r\nContent-Disposition: form-data; name="name"\r\n\r\nKa',
    ],
    ['that is JSON', 'multipart/form-data; boundary=x', '{}'],
  ])('a multipart body %s is refused as no form', async (_, type, sent) => {
    const { status, text } = await inquiryFunction()(sent, { ...FETCHES, 'content-type': type });
    expect([status, JSON.parse(text).issues]).toMatchObject([400, [{ path: '', code: 'invalid_form' }]]);
  });

  test('a multipart body in another charset is refused', async () => {
    const headers = { ...FETCHES, 'content-type': 'multipart/form-data; boundary=x; charset=latin1' };
    expect((await inquiryFunction()('--x--', headers)).status).toBe(415);
  });

  test.each([
    ['a form that navigates', form, NAVIGATES, 200],
    ['a form with files’ type that navigates', multipart, NAVIGATES, 200],
    ['a form of an old browser', form, { accept: BROWSER }, 200],
    ['a form that a script sends', multipart, FETCHES, 403],
    ['JSON', () => body, FETCHES, 403],
    ['JSON that asks for a page', () => body, NAVIGATES, 403],
  ])(
    '%s from a page that hides its origin is let through or refused, unreadable for the page',
    async (...row) => {
      const [, sent, headers, status] = row;
      const answer = await inquiryFunction()(sent(), { ...headers, origin: 'null' });
      expect([answer.status, answer.headers.get('vary')]).toEqual([status, 'Origin']);
      expect(answer.headers.get('access-control-allow-origin')).toBeNull();
    },
  );

  test.each([
    [`${SITE}/takk`, 303],
    ['/takk', 200],
    ['https://evil.example/', 200],
  ])(
    'the form of a page that hides its origin with the redirect %s is answered %i',
    async (redirect, status) => {
      const { status: answeredWith } = await inquiryFunction()(form({ redirect }), {
        ...NAVIGATES,
        origin: 'null',
      });
      expect(answeredWith).toBe(status);
    },
  );

  test('a form that falls into the trap goes on like any other', async () => {
    const answer = await inquiryFunction()(form({ [TRAP]: 'x', redirect: `${SITE}/takk` }));
    expect(answer.status).toBe(303);
    expect(sendgrid.mails).toEqual([]);
  });
});

describe('an inquiry that was mailed', () => {
  const events = async ({ db }: Bus) =>
    await rows<{ payload: Record<string, string>; correlation: string; traceparent: string | null }>(
      db,
      `select payload, correlation_id as correlation, traceparent from events where topic = 'inquiry.submitted' order by seq`,
    );

  test('a mailed inquiry becomes one event, however often it was sent', async ({ bus }) => {
    const post = inquiryFunction({ database: async () => bus.db });
    const answers = await Promise.all([post(body), post(body)]);
    const found = await events(bus);
    expect(found).toHaveLength(1);
    const { message: _message, ...fields } = body;
    expect(found[0]).toEqual({
      correlation: expect.toBeOneOf(answers.map(({ headers }) => headers.get('x-request-id'))),
      traceparent: null,
      payload: { ...fields, inquiryId: sendgrid.mails[0]?.custom_args?.reference },
    });
  });

  /** What becomes of the timers that are left: the event of an inquiry whose function has ended. */
  const minutesLater = (bus: Bus) =>
    drain(bus.db, [inquiriesBy(settings())], { now: Date.now() + 2 * MINUTE });

  test('a mailed inquiry leaves no timer of a second event', async ({ bus }) => {
    await inquiryFunction({ database: async () => bus.db })(body);
    expect(await rows(bus.db, 'select topic from timers')).toEqual([]);
    await minutesLater(bus);
    expect(await events(bus)).toHaveLength(1);
  });

  test('an inquiry becomes an event although its function ends when the mail is on its way', async ({
    bus,
  }) => {
    let isMailed = false;
    sendgrid.behave(['hang']);
    const timeoutMs = 8003;
    endLimit(timeoutMs, () => isMailed);
    const database = async () => bus.db;
    const answering = inquiryFunction({ database, timeoutMs })(body);
    await expect.poll(() => rows(bus.db, 'select topic from timers')).toHaveLength(1);
    await minutesLater(bus);
    expect(await events(bus)).toHaveLength(1);
    isMailed = true;
    await answering;
  });

  test('an inquiry becomes one event although the database goes away after its mail', async ({ bus }) => {
    const endsAt = Date.now() + 40 * SECOND;
    vi.useFakeTimers({ toFake: ['Date'] });
    onTestFinished(() => void vi.useRealTimers());
    skipPauses(SECOND);
    const database = async () => {
      if (sendgrid.mails.length === 0) return bus.db;
      vi.setSystemTime(endsAt);
      throw new Error(CANARY);
    };
    const kept: Promise<void>[] = [];
    const waitUntil = (work: Promise<void>) => void kept.push(work);
    expect((await inquiryFunction({ database, waitUntil })(body)).status).toBe(200);
    await Promise.all(kept);
    vi.useRealTimers();
    expect(written.join('\n')).toContain('not recorded as an event');
    expect(await events(bus)).toEqual([]);
    await minutesLater(bus);
    expect(await events(bus)).toHaveLength(1);
  });

  test.for([1, 4])(
    'an inquiry becomes one event when the database is there again at call %i',
    async (calls, { bus }) => {
      skipPauses(SECOND);
      let failures = 0;
      const database = async () => {
        failures += 1;
        if (failures > calls) return bus.db;
        throw new Error(CANARY);
      };
      const kept: Promise<void>[] = [];
      const waitUntil = (work: Promise<void>) => void kept.push(work);
      expect((await inquiryFunction({ database, waitUntil })(body)).status).toBe(200);
      await Promise.all(kept);
      expect(await events(bus)).toHaveLength(1);
      await minutesLater(bus);
      expect(await events(bus)).toHaveLength(1);
    },
  );

  test('a database that fails after the function’s life has ended leaves no unhandled rejection', async ({
    bus,
  }) => {
    const unhandled: unknown[] = [];
    const note = (error: unknown) => void unhandled.push(error);
    process.on('unhandledRejection', note);
    onTestFinished(() => void process.off('unhandledRejection', note));
    const endsAt = Date.now() + 40 * SECOND;
    vi.useFakeTimers({ toFake: ['Date'] });
    onTestFinished(() => void vi.useRealTimers());
    let fail: (error: Error) => void = () => {};
    const gone = new Promise<never>((_, reject) => void (fail = reject));
    const database = async () => {
      if (sendgrid.mails.length > 0) return await gone;
      vi.setSystemTime(endsAt);
      return bus.db;
    };
    const kept: Promise<void>[] = [];
    const waitUntil = (work: Promise<void>) => void kept.push(work);
    expect((await inquiryFunction({ database, waitUntil })(body)).status).toBe(200);
    await Promise.all(kept);
    fail(new Error(CANARY));
    await new Promise((resolve) => setImmediate(resolve));
    expect(unhandled).toEqual([]);
    expect(written.join('\n')).toContain('not recorded as an event');
  });

  test('an inquiry is answered the same when the database fails, which is logged', async () => {
    const { status } = await inquiryFunction({ database: async () => Promise.reject(new Error(CANARY)) })(
      body,
    );
    expect(status).toBe(200);
    expect(written.join('\n')).toContain('not recorded as an event');
  });

  test('an inquiry is answered within seconds when the database hangs', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const database = vi.fn(() => new Promise<never>(() => {}));
    const answering = inquiryFunction({ database })(body);
    await expect.poll(() => database.mock.calls.length).toBe(1);
    await vi.advanceTimersByTimeAsync(4000);
    expect((await answering).status).toBe(200);
  });
});

describe('an inquiry whose mail is not accepted', () => {
  beforeEach(() => skipPauses(500));

  const keptIn = (bus: Bus, parts: Partial<Inquiry> = {}) =>
    inquiryFunction({ database: async () => bus.db, ...parts });

  /** Lets the bus mail what is due so much later. */
  const later = async (bus: Bus, ms: number, of: Partial<MailSettings> = {}) =>
    await drain(bus.db, [inquiriesBy(settings(of))], { now: Date.now() + ms });

  const payloads = async (bus: Bus, topic: string) =>
    (
      await rows<{ payload: Record<string, string> }>(
        bus.db,
        'select payload from events where topic = $1 order by seq',
        [topic],
      )
    ).map(({ payload }) => payload);

  test('an inquiry is kept, mailed once when the provider is back, and marked as late', async ({ bus }) => {
    sendgrid.behave([503, 503]);
    const { status, text } = await keptIn(bus)(body);
    expect(status).toBe(502);
    expect(JSON.parse(text)).toMatchObject({
      code: 'email_failed',
      kept: true,
      mayBeSent: false,
      detail:
        'The mail provider did not accept the mail. Nothing was sent. The inquiry is kept, and is mailed as soon as the provider takes it: do not send it again.',
    });
    expect(await later(bus, MINUTE / 2)).toMatchObject({ delivered: 0 });
    expect(sendgrid.mails).toEqual([]);
    for (const ms of [MINUTE, 2 * MINUTE, 60 * MINUTE]) await later(bus, ms + SECOND);
    expect(sendgrid.mails).toHaveLength(1);
    const [{ subject, content, custom_args: reference }] = sendgrid.mails as [ReceivedMail];
    expect(subject).toMatch(/^\[Forsinket, sendt \d\d\.\d\d\.\d{4}, \d\d:\d\d\] \[kontakt-salg\] /);
    for (const { value } of content) {
      expect(value).toContain('Denne henvendelsen er forsinket');
      expect(value).toContain(body.message);
    }
    expect(await payloads(bus, 'inquiry.submitted')).toMatchObject([{ inquiryId: reference!['reference'] }]);
    // What the visitor wrote at length is in the mail alone.
    const [kept] = await payloads(bus, 'inquiry.delayed');
    expect(kept).toMatchObject({ email: body.email, topic: body.topic });
    expect(kept).not.toHaveProperty('message');
  });

  test('an inquiry that the provider may have accepted is not sent again at once, and says so', async ({
    bus,
  }) => {
    sendgrid.behave(['lose']);
    const { status, text } = await keptIn(bus)(body);
    expect(status).toBe(502);
    expect(JSON.parse(text)).toMatchObject({ code: 'email_failed', kept: true, mayBeSent: true });
    expect(JSON.parse(text).detail).toContain('The mail may have been sent all the same.');
    expect(sendgrid.mails).toHaveLength(1);
    await later(bus, 2 * MINUTE);
    await later(bus, 60 * MINUTE);
    // Losing it would be worse: a second mail, with the same reference, says that there may have been a first.
    const [first, second, ...others] = sendgrid.mails;
    expect(others).toEqual([]);
    expect(second!.custom_args).toEqual(first!.custom_args);
    expect(second!.content[0]!.value).toContain('Har dere fått en e-post med samme referanse før');
  });

  const KEY = { 'idempotency-key': 'key-1' };

  describe.each([
    ['with the same body', {}],
    ['with the same Idempotency-Key', KEY],
  ])('the second try of its visitor, %s,', (_how, headers) => {
    test('mails an inquiry that is kept since a moment, and the bus does not', async ({ bus }) => {
      sendgrid.behave([503, 503]);
      const post = keptIn(bus);
      await post(body, headers);
      const again = await post(body, headers);
      expect([again.status, again.headers.get('idempotent-replayed')]).toEqual([200, null]);
      expect(sendgrid.mails[0]!.subject).not.toContain('Forsinket');
      await later(bus, 2 * MINUTE);
      expect(sendgrid.mails).toHaveLength(1);
      expect(await rows(bus.db, 'select from timers')).toEqual([]);
      expect((await post(body, headers)).headers.get('idempotent-replayed')).toBe('true');
    });

    test('mails an inquiry that the bus tries in vain, in another process too', async ({ bus }) => {
      sendgrid.behave([], 503);
      await keptIn(bus)(body, headers);
      expect(await later(bus, 2 * MINUTE)).toMatchObject({ failed: 1 });
      expect((await keptIn(bus)(body, headers)).status).toBe(502);
      sendgrid.behave([]);
      expect((await keptIn(bus)(body, headers)).status).toBe(200);
      expect(await later(bus, 10 * MINUTE)).toMatchObject({ delivered: 1 });
      expect(sendgrid.mails).toHaveLength(1);
      expect(await payloads(bus, 'inquiry.submitted')).toHaveLength(1);
      expect((await payloads(bus, 'inquiry.delayed'))[0]).not.toHaveProperty('message');
    });

    test('is answered 200 and sends nothing where the bus has mailed it', async ({ bus }) => {
      sendgrid.behave([503, 503]);
      await keptIn(bus)(body, headers);
      await later(bus, 2 * MINUTE);
      const again = await keptIn(bus)(body, headers);
      expect([again.status, again.headers.get('idempotent-replayed')]).toEqual([200, 'true']);
      expect(sendgrid.mails).toHaveLength(1);
    });

    test('sends nothing while the bus is mailing it', async ({ bus }) => {
      sendgrid.behave([503, 503, 'hang']);
      const before = sendgrid.calls();
      await keptIn(bus)(body, headers);
      let isTriedAgain = false;
      endLimit(5 * SECOND, () => isTriedAgain);
      const mailing = later(bus, 2 * MINUTE);
      await expect.poll(() => sendgrid.calls() - before).toBe(3);
      const { status, text } = await keptIn(bus)(body, headers);
      expect([status, codeOf(text), JSON.parse(text).kept]).toEqual([502, 'email_timeout', true]);
      expect(sendgrid.calls() - before).toBe(3);
      isTriedAgain = true;
      expect(await mailing).toMatchObject({ failed: 1 });
    });
  });

  test('another inquiry, visitor or Idempotency-Key is no second try', async ({ bus }) => {
    sendgrid.behave([], 503);
    await keptIn(bus)(body, { ...KEY, 'x-visitor': 'a' });
    await keptIn(bus)(body, { ...KEY, 'x-visitor': 'b' });
    await keptIn(bus)({ ...body, message: 'x' }, { 'x-visitor': 'a' });
    const reused = await keptIn(bus)({ ...body, message: 'y' }, { ...KEY, 'x-visitor': 'a' });
    expect([reused.status, codeOf(reused.text)]).toEqual([422, 'idempotency_key_reused']);
    sendgrid.behave([]);
    await later(bus, 2 * MINUTE);
    expect(sendgrid.mails).toHaveLength(3);
  });

  test('the same inquiry ten minutes after it was mailed at last is another one', async ({ bus }) => {
    sendgrid.behave([503, 503]);
    await keptIn(bus)(body);
    await later(bus, 2 * MINUTE);
    await rows(bus.db, `update events set created_at = created_at - interval '15 minutes'`);
    await keptIn(bus)(body);
    expect(sendgrid.mails).toHaveLength(2);
  });

  test('a mail that the provider refuses for its content is a dead letter and holds back no other', async ({
    bus,
  }) => {
    sendgrid.behave([400, 503, 503, 400]);
    await keptIn(bus)(body);
    await keptIn(bus)({ ...body, message: 'x' });
    expect(await later(bus, 2 * MINUTE)).toMatchObject({ deadLettered: 1, delivered: 1 });
    expect(sendgrid.mails).toHaveLength(1);
    await replay(
      bus.db,
      { topic: 'inquiry.delayed', since: '10w' },
      'operator',
      new Date(Date.now() + 3 * MINUTE),
    );
    expect(await later(bus, 3 * MINUTE)).toMatchObject({ delivered: 1 });
    expect(sendgrid.mails).toHaveLength(2);
  });

  test('an inquiry waits while no mail is configured any more, without a dead letter', async ({ bus }) => {
    sendgrid.behave([401]);
    await keptIn(bus)(body);
    const without = [inquiriesBy(undefined)];
    for (const minutes of [2, 4, 10, 60, 600, 6000])
      await drain(bus.db, without, { now: Date.now() + minutes * MINUTE });
    expect(await countDeliveries(bus.db, `topic = 'inquiry.delayed' and state = 'dead_lettered'`)).toBe(0);
    await later(bus, 6010 * MINUTE);
    expect(sendgrid.mails).toHaveLength(1);
  });

  test('an inquiry whose visitor is to be forgotten is not mailed', async ({ bus }) => {
    sendgrid.behave([503, 503]);
    await keptIn(bus)(body);
    await rows(bus.db, 'update timers set erased_at = now()');
    expect(await later(bus, 2 * MINUTE)).toMatchObject({ delivered: 1 });
    expect(sendgrid.mails).toEqual([]);
  });

  test('without a database an inquiry is not kept, and no answer says that it is', async () => {
    sendgrid.behave([503, 503, 'lose']);
    const { text } = await inquiryFunction()(body);
    expect(JSON.parse(text)).toMatchObject({
      kept: false,
      detail:
        'The mail provider did not accept the mail. Nothing was sent. The inquiry is not kept: send it again later.',
    });
    expect((await inquiryFunction()(new URLSearchParams(body))).text).toContain(
      'Vi vet ikke om henvendelsen ble sendt',
    );
  });

  test('a form’s visitor reads that the inquiry is kept', async ({ bus }) => {
    sendgrid.behave([503, 503]);
    const { status, text } = await keptIn(bus)(new URLSearchParams(body));
    expect(status).toBe(502);
    expect(text).toContain('<h1>Vi har tatt vare på henvendelsen</h1>');
    expect(text).toContain('Du trenger ikke å sende den på nytt.');
  });

  test('an inquiry that is kept counts once against the day, as one mail', async ({ bus }) => {
    let budget = 0;
    const takeBudget = async () => {
      budget += 1;
      return { isAboveHalf: false, giveBack: async () => void (budget -= 1), spend: () => undefined };
    };
    const post = keptIn(bus, { takeBudget });
    sendgrid.behave([], 503);
    for (const tries of [1, 2, 3]) expect([(await post(body)).status, tries && budget]).toEqual([502, 1]);
    sendgrid.behave([]);
    await post(body);
    expect(budget).toBe(1);
  });
});

describe('an inquiry that fell into the trap', () => {
  const trapped = { ...body, [TRAP]: 'https://spam.example' };

  test('a trapped inquiry is kept, not mailed, and an operator takes it in by a replay', async ({ bus }) => {
    const now = Date.now() + 2 * MINUTE;
    const subscribers = [inquiriesBy(settings())];
    const { status, text } = await inquiryFunction({ database: async () => bus.db })(trapped);
    expect([status, text]).toEqual([200, '{"ok":true}']);
    const found = `select payload from events where topic = 'inquiry.trapped'`;
    expect(await rows(bus.db, found)).toMatchObject([{ payload: body }]);
    expect(await drain(bus.db, subscribers, { now })).toMatchObject({ delivered: 1 });
    expect(sendgrid.mails).toEqual([]);
    const taken = { topic: 'inquiry.trapped', since: '10m', include: 'all' } as const;
    for (const minutes of [3, 4]) {
      await replay(bus.db, taken, 'operator', new Date(now + minutes * MINUTE));
      await drain(bus.db, subscribers, { now: now + minutes * MINUTE });
    }
    expect(sendgrid.mails).toHaveLength(1);
    expect(sendgrid.mails[0]!.content[0]!.value).toContain(body.message);
    expect(await rows(bus.db, `select from events where topic = 'inquiry.submitted'`)).toHaveLength(1);
  });

  test('a person who was trapped may send the same inquiry again without the field', async ({ bus }) => {
    const post = inquiryFunction({ database: async () => bus.db });
    await post(trapped);
    expect((await post(body)).headers.get('idempotent-replayed')).toBeNull();
    expect(sendgrid.mails).toHaveLength(1);
  });

  test('a trapped inquiry is answered the same where it cannot be kept, which is logged', async () => {
    const database = async () => Promise.reject(new Error(CANARY));
    for (const parts of [{}, { database }]) {
      const kept: Promise<void>[] = [];
      vi.useFakeTimers({ toFake: ['Date'], now: Date.now() });
      const waitUntil = (work: Promise<void>) => void kept.push(work);
      const answering = inquiryFunction({ ...parts, waitUntil })(trapped);
      vi.setSystemTime(Date.now() + MINUTE);
      expect((await answering).status).toBe(200);
      await Promise.all(kept);
      vi.useRealTimers();
    }
    expect(written.join('\n')).toContain('there is no database');
    expect(written.join('\n')).toContain('an inquiry that fell into the trap was not kept');
  });
});

describe('a mail provider that is away for ten minutes, during which fifty visitors send an inquiry', () => {
  beforeEach(() => skipPauses(500));

  const START = Date.now();
  const at = (seconds: number) => new Date(START + seconds * SECOND);

  /** Sends an inquiry every 12 seconds, lets the bus work every 30 and the watch look every minute, for 40 minutes. */
  async function outage(bus: Bus, away: Behaviour) {
    const post = inquiryFunction({ database: async () => bus.db });
    const answers = new Map<number, number>();
    const mailedAt: number[] = [];
    let minutesOfIncident = 0;
    vi.useFakeTimers({ toFake: ['Date'] });
    onTestFinished(() => void vi.useRealTimers());
    for (let seconds = 0; seconds <= 40 * 60; seconds += 6) {
      vi.setSystemTime(at(seconds));
      sendgrid.behave([], seconds < 600 ? away : 'accept');
      if (seconds < 600 && seconds % 12 === 0) {
        const { status } = await post({ ...body, message: `nr ${seconds / 12}` });
        answers.set(status, (answers.get(status) ?? 0) + 1);
        // The timer is set by the database's clock, which the test does not move.
        const due = `update timers set due_at = $1 where payload ->> 'message' = $2`;
        await rows(bus.db, due, [at(seconds + 60).toISOString(), `nr ${seconds / 12}`]);
      }
      if (seconds % 30 === 0) await drain(bus.db, [inquiriesBy(settings())], { now: at(seconds) });
      while (mailedAt.length < sendgrid.mails.length) mailedAt.push(seconds);
      if (seconds % 60 !== 0) continue;
      await watchIncidents(bus.db, at(seconds));
      const open = await rows(bus.db, 'select from incidents where closed_at is null');
      minutesOfIncident += open.length;
    }
    vi.useRealTimers();
    const late = sendgrid.mails.filter(({ subject }) => subject.startsWith('[Forsinket'));
    const numbers = late.map(({ content }) => Number(/nr (\d+)/.exec(content[0]!.value)![1]));
    return {
      answers: Object.fromEntries(answers),
      mails: sendgrid.mails.length,
      late: numbers.length,
      inquiries: new Set(numbers).size,
      inOrder: isDeepStrictEqual(
        numbers,
        numbers.toSorted((one, other) => one - other),
      ),
      lastMinute: mailedAt.at(-1)! / 60,
      dead: await countDeliveries(bus.db, "state = 'dead_lettered'"),
      incidents: (await rows(bus.db, 'select from incidents')).length,
      minutesOfIncident,
    };
  }

  const once = {
    answers: { 502: 50 },
    mails: 50,
    late: 50,
    inquiries: 50,
    inOrder: true,
    dead: 0,
    incidents: 1,
  };

  test.for<[what: string, away: Behaviour, expected: object]>([
    // The bus takes it as an outage, and probes every five minutes.
    ['answers 503', 503, { lastMinute: 13, minutesOfIncident: 12 }],
    // Nobody knows whether it has accepted a mail, so each retry counts as an attempt.
    ['answers 500', 500, { lastMinute: 37, minutesOfIncident: 36 }],
    // The oldest of them is mailed by each retry, the others twice.
    [
      'accepts every mail and answers 500',
      'lose',
      { lastMinute: 37, minutesOfIncident: 36, mails: 103, late: 53 },
    ],
  ])(
    'the bus mails all of them in order, late, where the provider %s',
    async ([, away, expected], { bus }) => {
      expect(await outage(bus, away)).toEqual({ ...once, ...expected });
    },
  );
});

test('the deployed function mails an inquiry and emits its event', async () => {
  const variables = {
    // A deployment refuses a stand-in without HTTPS, so this is none; nor is there a database.
    DATABASE_URL: `postgres://127.0.0.1:${await freePort()}/none`,
    SENDGRID_API_KEY: `SG.${CANARY}`,
    SENDGRID_BASE_URL: sendgrid.url,
    ADMIN_EMAIL: 'admin@example.no',
    FROM_EMAIL: 'noreply@example.no',
    CORS_ORIGINS: SITE,
    INQUIRY_RATE_PER_10_MINUTES: '2',
  };
  // All three in one window.
  vi.useFakeTimers({ toFake: ['Date'] });
  onTestFinished(() => void vi.useRealTimers());
  for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value);
  // What an earlier file left running may have loaded the functions' settings, with other variables.
  vi.resetModules();
  const { default: inquiry } = await import('../../api/inquiry.ts');
  const post = async (sent: URLSearchParams | string, type = 'application/json') => {
    const headers = { 'content-type': type, origin: SITE, 'x-forwarded-for': '192.0.2.1' };
    const request = new Request('https://api.example.no/api/inquiry', {
      method: 'POST',
      body: sent,
      headers,
    });
    const response = await inquiry.fetch(request);
    answered.push(await response.clone().text());
    return response;
  };
  expect((await post(JSON.stringify(body))).headers.get('access-control-allow-origin')).toBe(SITE);
  expect((await post(JSON.stringify(body))).headers.get('idempotent-replayed')).toBe('true');
  const refused = await post(new URLSearchParams(body), 'application/x-www-form-urlencoded');
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, expect.stringMatching(/^\d+$/)]);
  expect(await refused.text()).toContain('<h1>Vent litt</h1>');
  expect(sendgrid.mails).toHaveLength(1);
});

test.each([
  ['visitor', 61, 'Det har kommet mange henvendelser herfra. Prøv igjen om 61 sekunder.'],
  ['network', 421, 'Det har kommet mange henvendelser fra nettet du bruker. Prøv igjen om 8 minutter.'],
  ['service', 61_200, 'Vi har fått for mange henvendelser. Prøv igjen om 17 timer, klokka 01:00.'],
] as const)(
  'the page for a form that a limit of the %s refused says whose limit it was and when it opens, in %i seconds',
  async (scope, retryAfterSeconds, words) => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.UTC(2026, 10, 21, 7) });
    onTestFinished(() => void vi.useRealTimers());
    const form = new Request('https://api.example.no/', { method: 'POST', body: new URLSearchParams(body) });
    const problem = new Problem('rate_limited', { detail: 'In English.', scope, retryAfterSeconds });
    const page = problemForVisitor(problem, 'req_1', form);
    expect([page.status, page.headers.get('retry-after')]).toEqual([429, `${retryAfterSeconds}`]);
    expect(await page.text()).toContain(`<p>${words}</p>`);
  },
);

describe('the stand-in', () => {
  test('the mail stand-in shows its mails, each in a sandbox', async () => {
    await inquiryFunction()({ ...body, message: '<script>x</script>' });
    const page = await (await fetch(sendgrid.url)).text();
    expect(page).toContain('<iframe sandbox');
    expect(page).toContain('&amp;lt;script&amp;gt;');
    expect(page).not.toContain('<script');
  });

  test('the mail stand-in refuses a wrong key, a repeated address and a mail without a subject', async () => {
    const mail = {
      personalizations: [{ to: [{ email: 'a@example.no' }], cc: [{ email: 'A@example.no' }] }],
      from: { email: 'b@example.no' },
      subject: 'x',
      content: [{ type: 'text/plain', value: 'x' }],
    };
    const send = async (sent: object, key = 'SG.x') =>
      await fetch(`${sendgrid.url}/v3/mail/send`, {
        method: 'POST',
        body: JSON.stringify(sent),
        headers: { authorization: `Bearer ${key}` },
      });
    expect((await send(mail)).status).toBe(400);
    const alone = { ...mail, personalizations: [{ to: [{ email: 'a@example.no' }] }] };
    expect((await send({ ...alone, subject: '' })).status).toBe(400);
    expect((await send(alone, 'x')).status).toBe(401);
    expect((await send(alone)).status).toBe(202);
  });
});
