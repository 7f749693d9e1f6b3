import { createHash } from 'node:crypto';

import fc from 'fast-check';
import { Webhook } from 'standardwebhooks';
import Stripe from 'stripe';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';

import { hmac } from '../../lib/edge/webhooks/sign.ts';
import { verifyWebhook } from '../../lib/edge/webhooks/verify.ts';
import type { Scheme } from '../../lib/platform/config.ts';
import { sign } from '../support/webhook-senders.ts';
import type { Signing } from '../support/webhook-senders.ts';

// How each scheme writes its headers. The verdicts of Stripe's and Standard Webhooks' own SDKs are asked here and now;
// where a provider has no verifier, its documented example is the reference.

const NOW = 1_700_000_000;

const BODY = '{"id":"evt_1","type":"charge.refunded","text":"blåbær 🫐"}';

interface Sent {
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
  readonly secret?: string;
  /** Unix seconds at which it arrives. */
  readonly at?: number;
}

type Verdict = 'accepted' | 'refused';

/** One request with our verdict and the SDK's, and the reason where the two differ. */
type Row = [title: string, sent: Sent, ours: Verdict, sdk: Verdict, reason?: string];

beforeAll(() => void vi.useFakeTimers({ toFake: ['Date'] }));
afterAll(() => void vi.useRealTimers());

describe('Stripe’s notation', () => {
  const SECRET = 'whsec_dGhlIGtleSBpcyB0aGUgdGV4dA==';
  const v1 = (text: string | Buffer, key = SECRET) => hmac(key, text).toString('hex');
  const good = v1(`${NOW}.${BODY}`);
  const other = v1(`${NOW}.${BODY}`, 'whsec_the_other_one');

  const sent = (header: string, rest: Omit<Sent, 'headers'> = {}): Sent => ({
    headers: { 'stripe-signature': header },
    ...rest,
  });
  const plain = `t=${NOW},v1=${good}`;
  const asText = Buffer.from('{"a":"\uFFFD"}');
  const asByte = Buffer.from([...Buffer.from('{"a":"'), 0xff, ...Buffer.from('"}')]);

  const PARSE_INT = 'the SDK reads the time with parseInt, and signs what that made of it';
  const LOOSE = 'Stripe writes no such header';
  const TEXT = 'the SDK decodes the body before it signs';

  const rows: Row[] = [
    ['a header as documented', sent(plain), 'accepted', 'accepted'],
    ['the last moment of the tolerance', sent(plain, { at: NOW + 300.999 }), 'accepted', 'accepted'],
    ['a second later', sent(plain, { at: NOW + 301 }), 'refused', 'refused'],
    ['a clock that is 300 s behind', sent(plain, { at: NOW - 300 }), 'accepted', 'accepted'],
    [
      'a clock that is 301 s behind',
      sent(plain, { at: NOW - 301 }),
      'refused',
      'accepted',
      'a time ahead would keep what was captured fresh for as long; the SDK for PHP refuses it too',
    ],
    ['the time last', sent(`v1=${good},t=${NOW}`), 'accepted', 'accepted'],
    ['the old secret’s signature first', sent(`t=${NOW},v1=${other},v1=${good}`), 'accepted', 'accepted'],
    ['the old secret’s signature last', sent(`t=${NOW},v1=${good},v1=${other}`), 'accepted', 'accepted'],
    ['the same signature twice', sent(`t=${NOW},v1=${good},v1=${good}`), 'accepted', 'accepted'],
    ['a signature that is none beside the right one', sent(`${plain},v1=potato`), 'accepted', 'accepted'],
    ['schemes to come', sent(`t=${NOW},v0=x,v1=${good},v2=${other}`), 'accepted', 'accepted'],
    ['v0 alone', sent(`t=${NOW},v0=${good}`), 'refused', 'refused'],
    ['the right v0 beside a wrong v1', sent(`t=${NOW},v0=${good},v1=${other}`), 'refused', 'refused'],
    ['names in capitals', sent(`T=${NOW},V1=${good}`), 'refused', 'refused'],
    ['a space after the comma', sent(`t=${NOW}, v1=${good}`), 'refused', 'refused'],
    ['semicolons', sent(`t=${NOW};v1=${good}`), 'refused', 'refused'],
    ['a comma at the end', sent(`${plain},`), 'refused', 'accepted', LOOSE],
    ['an item without a value', sent(`${plain},v1`), 'refused', 'refused'],
    ['a value that goes on after an =', sent(`t=${NOW},v1=${good}=`), 'refused', 'accepted', LOOSE],
    ['capital hex', sent(`t=${NOW},v1=${good.toUpperCase()}`), 'refused', 'refused'],
    ['base64 in place of hex', sent(`t=${NOW},v1=${fromHex(good)}`), 'refused', 'refused'],
    ['an empty signature', sent(`t=${NOW},v1=`), 'refused', 'refused'],
    ['an empty time', sent(`t=,v1=${v1(`.${BODY}`)}`), 'refused', 'refused'],
    ['no time', sent(`v1=${good}`), 'refused', 'refused'],
    ['no signature', sent(`t=${NOW}`), 'refused', 'refused'],
    ['a scheme to come whose value has an =', sent(`t=${NOW},v2=x=y,v1=${good}`), 'accepted', 'accepted'],
    ['17 signatures', sent(`t=${NOW}${`,v1=${good}`.repeat(17)}`), 'refused', 'accepted', LOOSE],
    ['the same time twice', sent(`t=${NOW},${plain}`), 'refused', 'accepted', LOOSE],
    ['two times', sent(`t=1,t=${NOW},v1=${good}`), 'refused', 'accepted', 'other SDKs take the first'],
    ['letters after the time', sent(`t=${NOW}abc,v1=${good}`), 'refused', 'accepted', PARSE_INT],
    ['a zero before the time', sent(`t=0${NOW},v1=${good}`), 'refused', 'accepted', PARSE_INT],
    ['a sign before the time', sent(`t=+${NOW},v1=${good}`), 'refused', 'accepted', PARSE_INT],
    ['a fraction of the time', sent(`t=${NOW}.5,v1=${good}`), 'refused', 'accepted', PARSE_INT],
    ['milliseconds', sent(`t=${NOW}000,v1=${v1(`${NOW}000.${BODY}`)}`), 'refused', 'accepted', 'far ahead'],
    [
      'line breaks of Windows in the body',
      sent(`t=${NOW},v1=${v1(`${NOW}.{\r\n}`)}`, { body: '{\r\n}' }),
      'accepted',
      'accepted',
    ],
    ['a byte order mark', sent(plain, { body: Buffer.from(`\uFEFF${BODY}`) }), 'refused', 'accepted', TEXT],
    [
      'a byte that decodes to what was signed',
      sent(`t=${NOW},v1=${v1(Buffer.concat([Buffer.from(`${NOW}.`), asText]))}`, { body: asByte }),
      'refused',
      'accepted',
      TEXT,
    ],
    ['the secret without its prefix', sent(plain, { secret: SECRET.slice(6) }), 'refused', 'refused'],
    ['a secret with a line break', sent(plain, { secret: `${SECRET}\n` }), 'refused', 'refused'],
  ];

  test.each(rows)(
    'a Stripe header with %s is accepted or refused as listed, by us and by the SDK',
    (_, request, ours, sdk, reason) => {
      expect(verdictOf('stripe', SECRET, request)).toBe(ours);
      expect(askStripe(request)).toBe(sdk);
      expect(ours === sdk).toBe(reason === undefined);
    },
  );

  test('every request that Stripe’s SDK signs is accepted, and no header that it refuses', () => {
    const others = ['t=', `t=${NOW}`, `t=${NOW - 301}`, `v1=${other}`, `v0=${good}`, 'v2=x', 'v1', '', ' '];
    const some = fc.array(fc.constantFrom(...others, `v1=${good}`), { maxLength: 2 });
    const header = fc.tuple(some, fc.constant(`t=${NOW}`), some).map((parts) => parts.flat().join(','));
    let accepted = 0;
    fc.assert(
      fc.property(header, (text) => {
        if (verdictOf('stripe', SECRET, sent(text)) === 'refused') return;
        accepted += 1;
        expect(askStripe(sent(text))).toBe('accepted');
      }),
      { numRuns: 2000 },
    );
    expect(accepted).toBeGreaterThan(20);
    fc.assert(
      fc.property(
        fc.string({ minLength: 1, unit: 'grapheme' }),
        fc.integer({ min: -300, max: 300 }),
        (body, offset) => {
          const signed = Stripe.webhooks.generateTestHeaderString({
            payload: body,
            secret: SECRET,
            timestamp: NOW + offset,
          });
          expect(verdictOf('stripe', SECRET, sent(signed, { body }))).toBe('accepted');
        },
      ),
    );
  });

  function askStripe({ headers, body = BODY, secret = SECRET, at = NOW }: Sent): Verdict {
    const header = headers['stripe-signature'] ?? '';
    return verdict(() =>
      Stripe.webhooks.signature!.verifyHeader(body, header, secret, 300, undefined, at * 1000),
    );
  }
});

describe('the notation of Standard Webhooks', () => {
  const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
  const ID = 'msg_p5jXN8AQM9LWM0D4loKWxJek';
  const v1 = (text: string | Buffer, secret = SECRET) =>
    `v1,${hmac(Buffer.from(secret.replace('whsec_', ''), 'base64'), text).toString('base64')}`;
  const good = v1(`${ID}.${NOW}.${BODY}`);
  const other = v1(`${ID}.${NOW}.${BODY}`, 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD');

  const sent = (
    signature: string,
    { id = ID, time = `${NOW}`, brand = 'webhook', ...rest }: Signed = {},
  ): Sent => ({
    headers: { [`${brand}-id`]: id, [`${brand}-timestamp`]: time, [`${brand}-signature`]: signature },
    ...rest,
  });
  interface Signed extends Omit<Sent, 'headers'> {
    readonly id?: string;
    readonly time?: string;
    readonly brand?: string;
  }
  const both = (webhook: Sent, svix: Sent): Sent => ({ headers: { ...webhook.headers, ...svix.headers } });
  const svix = (signature: string) => sent(signature, { brand: 'svix' });
  const asByte = Buffer.from([...Buffer.from('{"a":"'), 0xff, ...Buffer.from('"}')]);
  const unpadded = 'MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS';

  const PARSE_INT = 'the SDK reads the time with parseInt, and signs what that made of it';
  const SVIX = 'the names are Svix’s, whose own SDK takes both';

  const rows: Row[] = [
    ['headers as specified', sent(good), 'accepted', 'accepted'],
    ['the last moment of the tolerance', sent(good, { at: NOW + 300.999 }), 'accepted', 'accepted'],
    ['a second later', sent(good, { at: NOW + 301 }), 'refused', 'refused'],
    ['a clock that is 300 s behind', sent(good, { at: NOW - 300 }), 'accepted', 'accepted'],
    ['a clock that is 301 s behind', sent(good, { at: NOW - 301 }), 'refused', 'refused'],
    ['an old and a new secret’s signature', sent(`${other} ${good}`), 'accepted', 'accepted'],
    ['versions to come', sent(`v2,x v1a,y ${good} v3`), 'accepted', 'accepted'],
    ['two spaces between', sent(`${other}  ${good}`), 'accepted', 'accepted'],
    ['a tab between', sent(`${other}\t${good}`), 'refused', 'refused'],
    ['a comma between', sent(`${other},${good}`), 'refused', 'refused'],
    ['something after the signature', sent(`${good},x`), 'refused', 'accepted', 'no sender writes it'],
    ['a capital version', sent(good.replace('v1', 'V1')), 'refused', 'refused'],
    ['no version', sent(good.slice(3)), 'refused', 'refused'],
    ['another version', sent(good.replace('v1', 'v2')), 'refused', 'refused'],
    ['a version alone', sent('v1'), 'refused', 'refused'],
    ['an empty signature', sent('v1,'), 'refused', 'refused'],
    ['the first eight characters', sent(good.slice(0, 8)), 'refused', 'refused'],
    ['a signature without its padding', sent(good.replace('=', '')), 'refused', 'refused'],
    ['other unused bits in the last character', sent(good.replace(/.=$/, otherBits)), 'refused', 'refused'],
    ['hex', sent(`v1,${Buffer.from(good.slice(3), 'base64').toString('hex')}`), 'refused', 'refused'],
    ['letters after the time', sent(good, { time: `${NOW}abc` }), 'refused', 'accepted', PARSE_INT],
    ['a sign before the time', sent(good, { time: `+${NOW}` }), 'refused', 'accepted', PARSE_INT],
    ['a zero before the time', sent(good, { time: `0${NOW}` }), 'refused', 'accepted', PARSE_INT],
    ['a fraction of the time', sent(good, { time: `${NOW}.9` }), 'refused', 'accepted', PARSE_INT],
    ['milliseconds', sent(v1(`${ID}.${NOW}000.${BODY}`), { time: `${NOW}000` }), 'refused', 'refused'],
    [
      'an id that has taken in the time',
      sent(v1(`evil.${NOW}.${NOW}.${BODY}`), { id: `evil.${NOW}` }),
      'refused',
      'accepted',
      'the same bytes would be signed for the id "evil"',
    ],
    ['no body', sent(v1(`${ID}.${NOW}.`), { body: '' }), 'accepted', 'accepted'],
    ['a body that is not JSON', sent(v1(`${ID}.${NOW}.ping`), { body: 'ping' }), 'accepted', 'accepted'],
    ['a byte order mark', sent(good, { body: Buffer.from(`\uFEFF${BODY}`) }), 'refused', 'refused'],
    [
      'a byte that decodes to what was signed',
      sent(v1(`${ID}.${NOW}.{"a":"\uFFFD"}`), { body: asByte }),
      'refused',
      'accepted',
      'the SDK decodes the body before it signs',
    ],
    ['a secret without its prefix', sent(good, { secret: SECRET.slice(6) }), 'accepted', 'accepted'],
    ['the secret’s text as the key', sent(`v1,${fromHex(hexOf(SECRET))}`), 'refused', 'refused'],
    [
      'a secret in url-safe base64',
      sent(v1(`${ID}.${NOW}.${BODY}`, '+/+/'.repeat(8)), { secret: `whsec_${'-_-_'.repeat(8)}` }),
      'refused',
      'refused',
    ],
    [
      'a secret that lost its padding',
      sent(v1(`${ID}.${NOW}.${BODY}`, `${unpadded}=`), { secret: unpadded }),
      'accepted',
      'accepted',
    ],
    ['Svix’s names', svix(good), 'accepted', 'refused', SVIX],
    [
      'Svix’s names and a stray id of the standard',
      both({ headers: { 'webhook-id': 'x' } }, svix(good)),
      'accepted',
      'refused',
      SVIX,
    ],
    ['both sets of names', both(sent(good), svix(good)), 'accepted', 'accepted'],
    ['both, of which only the standard’s is signed', both(sent(good), svix(other)), 'accepted', 'accepted'],
    ['both, of which only Svix’s is signed', both(sent(other), svix(good)), 'accepted', 'refused', SVIX],
    ['both, of which neither is signed', both(sent(other), svix(other)), 'refused', 'refused'],
    [
      'both, of which the signed one is too old',
      both(sent(other), sent(v1(`${ID}.${NOW - 301}.${BODY}`), { time: `${NOW - 301}`, brand: 'svix' })),
      'refused',
      'refused',
    ],
    [
      'one set’s signature with the other’s id and time',
      { headers: { 'webhook-id': ID, 'webhook-timestamp': `${NOW}`, 'svix-signature': good } },
      'refused',
      'refused',
    ],
  ];

  test.each(rows)(
    'a Standard Webhooks request with %s is accepted or refused as listed, by us and by the SDK',
    (_, request, ours, sdk, reason) => {
      expect(verdictOf('standard', SECRET, request)).toBe(ours);
      expect(askStandardWebhooks(request)).toBe(sdk);
      expect(ours === sdk).toBe(reason === undefined);
    },
  );

  test('a request has the event id of the set of headers that is signed', () => {
    const headers = {
      ...sent(other, { id: 'msg_of_a_gateway' }).headers,
      ...svix(good).headers,
    };
    const request = {
      secrets: [SECRET],
      headers,
      body: Buffer.from(BODY),
      url: 'https://x.example',
      now: NOW,
    };
    expect(verifyWebhook('standard', request)).toMatchObject({ ok: true, eventId: ID });
  });

  test('every request that its SDK signs is accepted, and no signature list that it refuses', () => {
    const others = [other, good.replace('v1', 'v2'), 'v1', 'v1,', '', good.slice(3), `${good},`];
    const list = fc.array(fc.constantFrom(...others, good), { maxLength: 5 });
    let accepted = 0;
    fc.assert(
      fc.property(list, fc.constantFrom(' ', '  ', ', ', '\t'), (parts, separator) => {
        const request = sent(parts.join(separator));
        if (verdictOf('standard', SECRET, request) === 'refused') return;
        accepted += 1;
        expect(askStandardWebhooks(request)).toBe('accepted');
      }),
      { numRuns: 2000 },
    );
    expect(accepted).toBeGreaterThan(20);
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.integer({ min: -300, max: 300 }), (body, offset) => {
        const signature = new Webhook(SECRET).sign(ID, new Date((NOW + offset) * 1000), body);
        const request = sent(signature, { time: `${NOW + offset}`, body });
        expect(verdictOf('standard', SECRET, request)).toBe('accepted');
      }),
    );
  });

  function askStandardWebhooks({ headers, body = BODY, secret = SECRET, at = NOW }: Sent): Verdict {
    vi.setSystemTime(at * 1000);
    const asReceived = new Headers(headers);
    return verdict(() =>
      new Webhook(secret).verify(body, Object.fromEntries(asReceived), { jsonParse: false }),
    );
  }

  function hexOf(key: string): string {
    return hmac(key, `${ID}.${NOW}.${BODY}`).toString('hex');
  }
});

describe('an ed25519 signature that the specification of Standard Webhooks publishes', () => {
  const PUBLIC_KEY = 'whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=';
  const V1A = 'hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg==';
  const asSent = (signature: string): Sent => ({
    headers: {
      'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      'webhook-timestamp': '1614265330',
      'webhook-signature': signature,
    },
    body: '{"test": 2432232314}',
    at: 1_614_265_330,
  });

  test.each<[string, string, string, Verdict]>([
    ['alone', PUBLIC_KEY, `v1a,${V1A}`, 'accepted'],
    ['with its key unpadded', PUBLIC_KEY.replace('=', ''), `v1a,${V1A}`, 'accepted'],
    ['as a v1', PUBLIC_KEY, `v1,${V1A}`, 'refused'],
    ['without its padding', PUBLIC_KEY, `v1a,${V1A.replaceAll('=', '')}`, 'refused'],
    ['in url-safe base64', PUBLIC_KEY, `v1a,${V1A.replaceAll('/', '_').replaceAll('+', '-')}`, 'refused'],
    ['with its key as a shared secret', PUBLIC_KEY.replace('whpk_', 'whsec_'), `v1a,${V1A}`, 'refused'],
    ['with its key in url-safe base64', PUBLIC_KEY.replace('1SiA', '1S-A'), `v1a,${V1A}`, 'refused'],
  ])('the published v1a signature %s is accepted or refused as listed', (_, secret, signature, expected) => {
    expect(verdictOf('standard', secret, asSent(signature))).toBe(expected);
  });
});

describe('Vipps MobilePay', () => {
  const GUID = '090a478d-37ff-4e77-970e-d457aeb26a3a';

  test('the documented example of Vipps MobilePay is accepted, and not with its secret decoded', () => {
    const example: Sent = {
      headers: {
        'x-ms-date': 'Thu, 30 Mar 2023 08:38:32 GMT',
        'x-ms-content-sha256': 'lNlsp1XA03N34HrQsVzPgJKtC+r7l/RBF4V3JQUWMj4=',
        Host: 'webhook.site',
        Authorization:
          'HMAC-SHA256 SignedHeaders=x-ms-date;host;x-ms-content-sha256&Signature=agAiSyogQbDHpeucoNwYz+yAr5nJ+v+zasdkSbqzv+U=',
      },
      body: '{"some-unique-content":"ee6e441b-cc4a-46f8-895d-a5af79bcc233/hello-world"}',
      at: 1_680_165_512,
    };
    const url = 'https://webhook.site/e2cee29b-012e-4f1d-8ef4-e95fd74a7a63';
    const secret = 'A0+AeKBRG2KRGvnNwJpQlb6IJFk48CKXCIcrLoHncVJKDILsQSxS6NWCccwWm6r6FhGKhiHTBsG2wo/xU6FY/A==';
    expect(verdictOf('vipps', secret, example, url)).toBe('accepted');
    const decoded = Buffer.from(secret, 'base64').toString('latin1');
    expect(verdictOf('vipps', decoded, example, url)).toBe('refused');
  });

  test.each([
    ['https://postbud.example/webhooks/walletpayments', 'postbud.example', '/webhooks/walletpayments'],
    ['https://Postbud.Example/webhooks/walletpayments', 'postbud.example', '/webhooks/walletpayments'],
    ['https://postbud.example:443/w', 'postbud.example', '/w'],
    ['https://postbud.example:8443/w', 'postbud.example:8443', '/w'],
    ['http://postbud.example:80/w', 'postbud.example', '/w'],
    ['https://blåbær.example/w', 'xn--blbr-roah.example', '/w'],
    ['https://postbud.example/w%20x/%C3%A5', 'postbud.example', '/w%20x/%C3%A5'],
    ['https://postbud.example/w%2Fx', 'postbud.example', '/w%2Fx'],
    ['https://postbud.example/å', 'postbud.example', '/%C3%A5'],
    ['https://postbud.example/w?a=b%20c&d=e+f&&g', 'postbud.example', '/w?a=b%20c&d=e+f&&g'],
    ['https://postbud.example/w?b=2&a=1', 'postbud.example', '/w?b=2&a=1'],
    ['https://postbud.example/w#part', 'postbud.example', '/w'],
    ['https://postbud.example', 'postbud.example', '/'],
  ])('a Vipps webhook to %s is verified over host %s and target %s', (url, host, target) => {
    expect(verdictOf('vipps', GUID, byVipps({ host, target }), url)).toBe('accepted');
  });

  test.each<[string, Partial<Signing>]>([
    ['the port that stands for itself', { host: 'postbud.example:443' }],
    ['another host', { host: 'postbud.example.evil.test' }],
    ['another port', { host: 'postbud.example:8443' }],
    ['another path', { target: '/w%20x/?a=1&b=2' }],
    ['a path in capitals', { target: '/W%20x?a=1&b=2' }],
    ['another query', { target: '/w%20x?a=1&b=3' }],
    ['a decoded path', { target: '/w x?a=1' }],
    ['the path without its query', { target: '/w%20x' }],
    ['another order of the query', { target: '/w%20x?b=2&a=1' }],
    ['line breaks of Windows', { lineBreak: '\r\n' }],
    ['another method', { method: 'PUT' }],
    ['the secret decoded', { key: Buffer.from(GUID, 'base64') }],
  ])('a Vipps webhook signed over %s is refused', (_, signed) => {
    const url = 'https://postbud.example/w%20x?a=1&b=2';
    const asRegistered = { host: 'postbud.example', target: '/w%20x?a=1&b=2' };
    expect(verdictOf('vipps', GUID, byVipps(asRegistered), url)).toBe('accepted');
    expect(verdictOf('vipps', GUID, byVipps({ ...asRegistered, ...signed }), url)).toBe('refused');
  });

  test.each<[string, string, (value: string) => string]>([
    ['a hash in url-safe base64', 'x-ms-content-sha256', (hash) => hash.replaceAll(/[+/]/g, '-')],
    ['a hash without its padding', 'x-ms-content-sha256', (hash) => hash.replace('=', '')],
    ['a hash in hex', 'x-ms-content-sha256', (hash) => Buffer.from(hash, 'base64').toString('hex')],
    ['a signature without its padding', 'authorization', (value) => value.replace(/=$/, '')],
    ['other unused bits in the signature', 'authorization', (value) => value.replace(/.=$/, otherBits)],
    ['a comma between its parts', 'authorization', (value) => value.replace('&', ', ')],
    ['its parts the other way round', 'authorization', turnedRound],
    ['other signed headers', 'authorization', (value) => value.replace('x-ms-date;host', 'host;x-ms-date')],
    ['fewer signed headers', 'authorization', (value) => value.replace(';x-ms-content-sha256', '')],
    ['another scheme', 'authorization', (value) => value.replace('HMAC-SHA256', 'Bearer')],
    ['a scheme in small letters', 'authorization', (value) => value.replace('HMAC-SHA256', 'hmac-sha256')],
    ['the old short form', 'authorization', (value) => value.replace(/SignedHeaders=.*Signature=/, '')],
    ['a date that is none', 'x-ms-date', () => 'Invalid Date'],
    ['a part more', 'authorization', (value) => `${value}&Credential=x`],
  ])('a Vipps webhook with %s is refused', (_, name, changed) => {
    // A hash with all of base64's signs in it, and a day of one digit.
    const at = Date.parse('Thu, 02 Nov 2023 22:13:20 GMT') / 1000;
    const signed = byVipps({ host: 'postbud.example', target: '/w', body: bodyWithSigns(), at });
    const headers = { ...signed.headers, [name]: changed(signed.headers[name]!) };
    expect(headers[name]).not.toBe(signed.headers[name]);
    expect(verdictOf('vipps', GUID, signed, 'https://postbud.example/w')).toBe('accepted');
    expect(verdictOf('vipps', GUID, { ...signed, headers }, 'https://postbud.example/w')).toBe('refused');
  });

  type ByVipps = Partial<Signing> & { readonly body?: string };

  function byVipps({ body = BODY, at = NOW, ...signing }: ByVipps): Sent {
    return { headers: sign('vipps', Buffer.from(body), { at, secret: GUID, ...signing }), body, at };
  }

  function bodyWithSigns(): string {
    for (let number = 0; ; number += 1) {
      const body = JSON.stringify({ number });
      if (/\+.*\/|\/.*\+/.test(createHash('sha256').update(body).digest('base64'))) return body;
    }
  }

  function turnedRound(authorization: string): string {
    const [scheme, parts] = authorization.split(' ') as [string, string];
    return `${scheme} ${parts.split('&').toReversed().join('&')}`;
  }
});

describe('Idura', () => {
  const SECRET = 'c2VjcmV0LWtleS1iZXR3ZWVuLTI1Ni1hbmQtNTEyLWJpdHMtbG9uZ2cu';
  const SIGNATURE = 'ESL08wAv98KMcMGFUIffJnonF9k98QKfYYspaaPVRUE=';
  const BODY_OF_IT =
    '{"event":"SIGNATURE_ORDER_EXPIRED","signatureOrderId":"SignatureOrder:tenant|order-abc"}';
  const asSent = (signature: string): Sent => ({
    headers: { 'X-Criipto-Signature': signature },
    body: BODY_OF_IT,
  });

  test.each<[string, string, string, Verdict]>([
    ['the decoded secret', SECRET, SIGNATURE, 'accepted'],
    ['the secret’s text', SECRET, hmac(SECRET, BODY_OF_IT).toString('base64'), 'refused'],
    ['the signature in hex', SECRET, Buffer.from(SIGNATURE, 'base64').toString('hex'), 'refused'],
    ['the signature without its padding', SECRET, SIGNATURE.slice(0, -1), 'refused'],
    ['a prefix before the signature', SECRET, `sha256=${SIGNATURE}`, 'refused'],
  ])('an Idura webhook signed with %s is accepted or refused as listed', (_, secret, signature, expected) => {
    expect(verdictOf('criipto', secret, asSent(signature))).toBe(expected);
  });
});

describe('a sender in GitHub’s style', () => {
  const SECRET = "It's a Secret to Everybody";
  const HEX = '757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17';

  test.each<[string, Readonly<Record<string, string>>, Verdict]>([
    ['as documented', { 'X-Hub-Signature-256': `sha256=${HEX}` }, 'accepted'],
    [
      'beside its old SHA-1',
      { 'X-Hub-Signature-256': `sha256=${HEX}`, 'X-Hub-Signature': 'sha1=x' },
      'accepted',
    ],
    ['under its old name', { 'X-Hub-Signature': `sha256=${HEX}` }, 'refused'],
    ['without the algorithm', { 'X-Hub-Signature-256': HEX }, 'accepted'],
    ['with another algorithm', { 'X-Hub-Signature-256': `sha1=${HEX}` }, 'refused'],
    ['with a capital algorithm', { 'X-Hub-Signature-256': `SHA256=${HEX}` }, 'refused'],
    ['in base64', { 'X-Hub-Signature-256': `sha256=${fromHex(HEX)}` }, 'refused'],
  ])('a GitHub webhook signed %s is accepted or refused as listed', (_, headers, expected) => {
    expect(verdictOf('github-style', SECRET, { headers, body: 'Hello, World!' })).toBe(expected);
  });
});

/** @param secret what is configured, unless the request has its own. */
function verdictOf(scheme: Scheme, secret: string, sent: Sent, url = 'https://postbud.example/'): Verdict {
  const { headers, body = BODY, at = NOW } = sent;
  const secrets = [sent.secret ?? secret];
  const { ok } = verifyWebhook(scheme, { secrets, headers, body: Buffer.from(body), url, now: at });
  return ok ? 'accepted' : 'refused';
}

/** What an SDK thinks, which throws for what it refuses. */
function verdict(verify: () => unknown): Verdict {
  try {
    verify();
    return 'accepted';
  } catch {
    return 'refused';
  }
}

function fromHex(hex: string): string {
  return Buffer.from(hex, 'hex').toString('base64');
}

/** Another last character that stands for the same bytes, by what `Buffer.from` makes of it. */
function otherBits(end: string): string {
  const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
  return `${digits[digits.indexOf(end.charAt(0)) ^ 1]}=`;
}
