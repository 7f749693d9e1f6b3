import { createHash, generateKeyPairSync, sign as signEd25519 } from 'node:crypto';
import { readFileSync } from 'node:fs';

import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';

import { isUsableSecret, verifyWebhook } from '../../lib/edge/webhooks/verify.ts';
import type { WebhookRequest } from '../../lib/edge/webhooks/verify.ts';
import { schemes } from '../../lib/platform/config.ts';
import type { Scheme } from '../../lib/platform/config.ts';
import { bodyOf, secretsOf, sign } from '../support/webhook-senders.ts';
import type { Signing } from '../support/webhook-senders.ts';

// One suite that every scheme goes through, over what the providers published and what our own senders sign. What is
// peculiar to a scheme's notation is held against its provider's SDK or documentation in webhook-notations.test.ts.

const NOW = 1_700_000_000;

const URL_OF_WEBHOOK = 'https://postbud.example/webhooks/walletpayments?a=1';

const eventOf: Record<Scheme, { eventId: string; eventType: string }> = {
  standard: { eventId: 'msg_1', eventType: 'charge.refunded' },
  stripe: { eventId: 'evt_1', eventType: 'charge.refunded' },
  vipps: { eventId: 'CAPTURED:acme-1:42', eventType: 'CAPTURED' },
  criipto: {
    eventId: createHash('sha256').update(bodyOf()).digest('hex'),
    eventType: 'SIGNATURE_ORDER_EXPIRED',
  },
  'github-style': { eventId: 'evt_1', eventType: 'charge.refunded' },
};

describe('the test vectors that providers publish', () => {
  test.each(
    vectors().map((vector) => [vector.scheme, vector.id, vector.expect, vector.why, vector] as const),
  )('the %s request %s is %s: %s', (scheme, _, verdict, __, vector) => {
    expect(verifyWebhook(scheme, requestOf(vector)).ok).toBe(verdict === 'valid');
  });

  test('the published vectors cover every scheme', () => {
    expect(new Set(vectors().map(({ scheme }) => scheme))).toEqual(new Set(schemes));
  });
});

describe('a valid request that is changed afterwards', () => {
  const originals = [
    ...vectors()
      .filter(({ expect: verdict }) => verdict === 'valid')
      .map((vector): Original => [vector.id, vector.scheme, requestOf(vector)]),
    ...schemes.map((scheme): Original => [`our own ${scheme}`, scheme, signedBy(scheme)]),
  ];

  test.each(originals)(
    'a request with one changed byte in its body is refused (%s)',
    (_, scheme, request) => {
      for (let index = 0; index < request.body.length; index += 1) {
        const body = Uint8Array.from(request.body, (byte, at) => (at === index ? byte ^ 1 : byte));
        expect(verifyWebhook(scheme, { ...request, body }).ok).toBe(false);
      }
    },
  );

  test.each(originals)(
    'a request with a byte more or less in its body is refused (%s)',
    (_, scheme, request) => {
      for (const body of [
        request.body.subarray(1),
        request.body.subarray(0, -1),
        Buffer.concat([request.body, Buffer.from('\n')]),
        Buffer.concat([Buffer.from('\uFEFF'), request.body]),
      ]) {
        expect(verifyWebhook(scheme, { ...request, body }).ok).toBe(false);
      }
    },
  );

  test.each(originals)(
    'a request without one of its signed headers is refused (%s)',
    (_, scheme, request) => {
      for (const name of signedHeaders(request)) {
        const headers = new Headers(request.headers);
        headers.delete(name);
        expect(verifyWebhook(scheme, { ...request, headers })).toEqual({
          ok: false,
          reason: 'missing_header',
        });
      }
    },
  );

  test.each(originals)(
    'a request with one changed character in a signed header is refused (%s)',
    (_, scheme, request) => {
      const reduced = withDecisiveSignature(scheme, request);
      for (const name of signedHeaders(reduced)) {
        const value = reduced.headers.get(name) ?? '';
        for (let index = 0; index < value.length; index += 1) {
          for (const replacement of replacementsOf(value.charAt(index))) {
            const changed = value.slice(0, index) + replacement + value.slice(index + 1);
            const verdict = verifyWebhook(scheme, withHeader(reduced, name, changed));
            expect(verdict.ok, `${name}: ${changed}`).toBe(false);
          }
        }
      }
    },
  );

  const timed = originals.filter(([, , request]) => timestampsMovedBy(1, request).length > 0);

  test.each(timed)('a request whose timestamp is moved by a second is refused (%s)', (_, scheme, request) => {
    for (const step of [-1, 1]) {
      for (const [name, value] of timestampsMovedBy(step, request)) {
        expect(verifyWebhook(scheme, withHeader(request, name, value)).ok).toBe(false);
      }
    }
  });
});

describe.each(schemes)('the scheme %s', (scheme) => {
  const [secret, otherSecret] = secretsOf[scheme];
  const request = signedBy(scheme);

  test('a request signed with the configured secret is accepted, with its event id and type', () => {
    expect(verifyWebhook(scheme, request)).toEqual({ ok: true, ...eventOf[scheme] });
  });

  test('a request is accepted with its headers as a plain record, in any case', () => {
    const headers = Object.fromEntries(
      [...request.headers].map(([name, value]) => [name.toUpperCase(), value]),
    );
    expect(verifyWebhook(scheme, { ...request, headers }).ok).toBe(true);
  });

  test.each([
    ['no secret', []],
    ['an empty secret', ['']],
    ['blank secrets', [' ', '\t\n', '\u00a0']],
    ['a prefix alone', ['whsec_', 'whpk_']],
    ['a secret of two characters', ['ab']],
  ])('every request is refused while the scheme has %s', (_, secrets) => {
    expect(secrets.some((candidate) => isUsableSecret(scheme, candidate))).toBe(false);
    expect(verifyWebhook(scheme, { ...request, secrets })).toEqual({ ok: false, reason: 'no_usable_secret' });
  });

  test('a request signed with an empty key is refused', () => {
    const forged = signedBy(scheme, { key: Buffer.alloc(0) });
    for (const secrets of [[], [''], ['whsec_'], ['', secret]]) {
      expect(verifyWebhook(scheme, { ...forged, secrets }).ok).toBe(false);
    }
  });

  test('a request signed with another secret is refused', () => {
    const refused = { ok: false, reason: 'signature_mismatch' };
    expect(verifyWebhook(scheme, { ...request, secrets: [otherSecret] })).toEqual(refused);
    expect(verifyWebhook(scheme, signedBy(scheme, { secret: otherSecret }))).toEqual(refused);
  });

  test.each([
    ['new, old', [otherSecret, secret]],
    ['old, new', [secret, otherSecret]],
    ['unusable, old, new', ['', secret, otherSecret]],
  ])(
    'requests signed with the old and with the new secret are accepted while both are configured (%s)',
    (_, secrets) => {
      for (const signer of [secret, otherSecret]) {
        expect(verifyWebhook(scheme, { ...signedBy(scheme, { secret: signer }), secrets }).ok).toBe(true);
      }
    },
  );

  test('the signature covers the bytes of the body, not the text they decode to', () => {
    const signedText = signedBy(scheme, { body: Buffer.from('{"a":"\uFFFD"}') });
    const invalidBytes = Buffer.from([...Buffer.from('{"a":"'), 0xff, ...Buffer.from('"}')]);
    expect(verifyWebhook(scheme, signedText).ok).toBe(true);
    expect(verifyWebhook(scheme, { ...signedText, body: invalidBytes }).ok).toBe(false);
    expect(verifyWebhook(scheme, signedBy(scheme, { body: invalidBytes })).ok).toBe(true);
  });

  test('a signed body that is not JSON is accepted without an event type', () => {
    for (const text of ['', 'example payload', '[]', '{"type":{"a":1}}', '{"type":"a\\u0000b"}']) {
      const verdict = verifyWebhook(scheme, signedBy(scheme, { body: Buffer.from(text) }));
      expect(verdict).toMatchObject({ ok: true, eventType: null });
    }
  });

  test('a request that repeats a signed header is refused, with the same value or another', () => {
    for (const name of signedHeaders(request)) {
      for (const value of [request.headers.get(name) ?? '', 'x']) {
        const headers = new Headers(request.headers);
        headers.append(name, value);
        expect(verifyWebhook(scheme, { ...request, headers }).ok).toBe(false);
        expect(verifyWebhook(scheme, withHeader(request, name, `x, ${request.headers.get(name)}`)).ok).toBe(
          false,
        );
      }
    }
  });

  test('a request is refused when a signed header is empty, in capitals, or has white space inside', () => {
    for (const name of signedHeaders(request)) {
      const value = request.headers.get(name) ?? '';
      const middle = value.length >> 1;
      const variants = ['', `${value.slice(0, middle)} ${value.slice(middle)}`, `${value}\u00a0`];
      // Digits have no case.
      if (value.toUpperCase() !== value) variants.push(value.toUpperCase());
      for (const variant of variants) {
        expect(verifyWebhook(scheme, withHeader(request, name, variant)).ok, variant).toBe(false);
      }
    }
  });

  test('a header with 5,000 copies of the right value is refused unread', () => {
    for (const name of signedHeaders(request)) {
      const value = request.headers.get(name) ?? '';
      for (const separator of [' ', ',', ', ', '&']) {
        const list = Array<string>(5000).fill(value).join(separator);
        const verdict = verifyWebhook(scheme, withHeader(request, name, list));
        expect(verdict).toEqual({ ok: false, reason: 'malformed_header' });
      }
    }
  });

  test('garbage in the headers is refused without an exception', () => {
    const names = signedHeaders(request);
    const piece = fc.constantFrom(
      'v1',
      'v1a',
      't',
      '=',
      ',',
      ' ',
      'sha256=',
      `${NOW + 1}`,
      'A'.repeat(43),
      'f'.repeat(64),
      '&Signature=',
    );
    const garbage = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.string({ unit: 'grapheme-ascii' }),
      fc.array(piece).map((pieces) => pieces.join('')),
    );
    fc.assert(
      fc.property(fc.constantFrom(...names), garbage, (name, value) => {
        const headers = { ...Object.fromEntries(request.headers), [name]: value };
        const verdict = verifyWebhook(scheme, { ...request, headers });
        expect(verdict.ok).toBe(false);
      }),
      { numRuns: 500 },
    );
    fc.assert(
      fc.property(fc.dictionary(fc.oneof(fc.string(), fc.constantFrom(...names)), garbage), (headers) => {
        expect(verifyWebhook(scheme, { ...request, headers }).ok).toBe(false);
      }),
    );
  });
});

describe.each(['standard', 'stripe', 'vipps'] as const)('the timestamp that %s signs', (scheme) => {
  test.each([300, 60])(
    'a timestamp may be off by the tolerance in either direction, and by no second more (%s s)',
    (toleranceSeconds) => {
      for (const offset of [0, toleranceSeconds, -toleranceSeconds]) {
        const request = { ...signedBy(scheme), toleranceSeconds };
        expect(verifyWebhook(scheme, { ...request, now: NOW + offset }).ok).toBe(true);
        expect(verifyWebhook(scheme, { ...request, now: NOW + offset + Math.sign(offset) }).ok).toBe(
          offset === 0,
        );
      }
    },
  );

  test('the tolerance is 300 s unless given, and a tolerance of 0 accepts any timestamp', () => {
    expect(verifyWebhook(scheme, { ...signedBy(scheme), now: NOW + 300.999 }).ok).toBe(true);
    expect(verifyWebhook(scheme, { ...signedBy(scheme), now: NOW - 300 }).ok).toBe(true);
    expect(verifyWebhook(scheme, { ...signedBy(scheme), now: 0, toleranceSeconds: 0 }).ok).toBe(true);
  });

  test('a timestamp is refused 301 s away, ten years away, and when our clock is not a number', () => {
    for (const now of [NOW + 301, NOW - 301, NOW - 315_360_000, NOW * 1000, Number.NaN]) {
      const verdict = verifyWebhook(scheme, { ...signedBy(scheme), now });
      expect(verdict).toEqual({ ok: false, reason: 'timestamp_out_of_tolerance' });
    }
  });

  test('a timestamp in any other notation is refused although its signature is right', () => {
    const notations = {
      unix: [
        '1700000000abc',
        '+1700000000',
        '-1700000000',
        '1700000000.0',
        '1.7e9',
        '0x6553f100',
        '17000000000000',
      ],
      http: [
        '2023-11-14T22:13:20Z',
        'Tue, 14 Nov 2023 22:13:20 UTC',
        'Tue, 14 Nov 2023 23:13:20 +0100',
        'Wed, 14 Nov 2023 22:13:20 GMT',
        'Tuesday, 14-Nov-23 22:13:20 GMT',
        'Tue Nov 14 22:13:20 2023',
        'tue, 14 nov 2023 22:13:20 gmt',
        'Tue, 14 Nov 2023 22:13:20',
        'Tue, 14 Nov 2023 21:73:20 GMT',
        'Thu, 2 Nov 2023 22:13:20 GMT',
      ],
    };
    for (const date of scheme === 'vipps' ? notations.http : notations.unix) {
      const verdict = verifyWebhook(scheme, signedBy(scheme, { date }));
      expect(verdict, date).toEqual({ ok: false, reason: 'malformed_header' });
    }
  });
});

describe('Standard Webhooks', () => {
  test.each(['a b', 'a,b', 'æ', 'a/b', 'a:b', 'a'.repeat(256)])(
    'a signed id that is too long, or holds more than letters, digits, _ and -, counts as no id (%$)',
    (id) => {
      expect(verifyWebhook('standard', signedBy('standard', { id }))).toMatchObject({
        ok: true,
        eventId: null,
      });
    },
  );

  test('a signature is found at any place in a list of 16, and a list of 17 is refused', () => {
    const request = signedBy('standard');
    const signature = request.headers.get('webhook-signature') ?? '';
    const decoys = ['v2,x', 'v1', '', 'v3,x', `v1,${'A'.repeat(43)}=`, ...Array<string>(10).fill('v1,short')];
    for (let place = 0; place <= decoys.length; place += 1) {
      const list = decoys.toSpliced(place, 0, signature);
      expect(verifyWebhook('standard', withHeader(request, 'webhook-signature', list.join(' '))).ok).toBe(
        true,
      );
    }
    const tooMany = [...decoys, 'v1,short', signature].join(' ');
    expect(verifyWebhook('standard', withHeader(request, 'webhook-signature', tooMany)).ok).toBe(false);
  });

  test('a public key verifies only v1a signatures, and a shared secret only v1 signatures', () => {
    const { publicKey, privateKey } = generateKeyPairSync('ed25519');
    const publicBytes = Buffer.from(publicKey.export({ format: 'jwk' }).x ?? '', 'base64url');
    const whpk = `whpk_${publicBytes.toString('base64')}`;
    const hmacSecret = `whsec_${publicBytes.toString('base64')}`;
    const body = Buffer.from('{"type":"login.succeeded"}');
    const v1a = `v1a,${signEd25519(null, Buffer.from(`msg_1.${NOW}.${body}`), privateKey).toString('base64')}`;
    const keyedWithPublicKey = signedBy('standard', { id: 'msg_1', body, key: publicBytes });
    const request = withHeader(keyedWithPublicKey, 'webhook-signature', v1a);
    const refused = { ok: false, reason: 'signature_mismatch' };

    expect(isUsableSecret('standard', whpk)).toBe(true);
    expect(verifyWebhook('standard', { ...request, secrets: [whpk] }).ok).toBe(true);
    expect(verifyWebhook('standard', { ...request, secrets: [hmacSecret, whpk] }).ok).toBe(true);
    expect(verifyWebhook('standard', { ...request, secrets: [hmacSecret] })).toEqual(refused);
    expect(verifyWebhook('standard', { ...keyedWithPublicKey, secrets: [hmacSecret] }).ok).toBe(true);
    expect(verifyWebhook('standard', { ...keyedWithPublicKey, secrets: [whpk] })).toEqual(refused);
  });

  test('a public key of any 32 bytes refuses a made-up signature without an exception', () => {
    const signature = `v1a,${Buffer.alloc(64, 1).toString('base64')}`;
    const request = withHeader(signedBy('standard'), 'webhook-signature', signature);
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), (bytes) => {
        const secrets = [`whpk_${Buffer.from(bytes).toString('base64')}`];
        expect(verifyWebhook('standard', { ...request, secrets }).ok).toBe(false);
      }),
    );
  });
});

describe('Vipps', () => {
  test('the signed host is that of the URL, whatever the Host header says', () => {
    const request = signedBy('vipps');
    expect(verifyWebhook('vipps', withHeader(request, 'host', 'evil.test')).ok).toBe(true);
    const forEvil = { ...signedBy('vipps', { host: 'evil.test' }), url: request.url };
    expect(verifyWebhook('vipps', withHeader(forEvil, 'host', 'evil.test')).ok).toBe(false);
  });

  test('a body that does not match its signed hash has a refusal reason of its own', () => {
    const verdict = verifyWebhook('vipps', { ...signedBy('vipps'), body: Buffer.from('{}') });
    expect(verdict).toEqual({ ok: false, reason: 'content_hash_mismatch' });
  });
});

describe('the event id', () => {
  test.each<[Scheme, string, string | null]>([
    ['stripe', '{"id":"evt_1"}', 'evt_1'],
    ['stripe', '{"eventId":"evt_1"}', null],
    ['stripe', '{"id":12345678901234567890}', null],
    ['stripe', '{"id":""}', null],
    ['stripe', '{"id":"a b"}', null],
    ['stripe', '{"id":"a\\u0000"}', null],
    ['stripe', '{"id":["evt_1"]}', null],
    ['stripe', '{"__proto__":{"id":"evt_1"}}', null],
    ['github-style', '{"eventId":"e-1","id":"i-1"}', 'e-1'],
    ['github-style', '{"id":"5b6c:1"}', '5b6c:1'],
    ['github-style', '{"eventId":1,"id":"i-1"}', '1'],
    ['github-style', '{"id":9007199254740991}', '9007199254740991'],
    ['github-style', '{"id":1.5}', null],
    ['github-style', '{"id":9007199254740993}', null],
    ['stripe', '{"id":7}', '7'],
    ['github-style', '{"foo":"bar"}', null],
    ['vipps', '{"name":"CAPTURED","reference":"acme-1","pspReference":"123"}', 'CAPTURED:acme-1:123'],
    ...[
      '{"name":"CAPTURED","reference":"acme-1"}',
      '{"name":"CAPTURED","reference":"","pspReference":"123"}',
      '{"agreementId":"agr_5kSeqz","eventType":"recurring.agreement-activated.v1","occurred":"2026-11-28T06:00:00Z"}',
      '{"customerToken":"eyJhb","msn":"123456","initiatedAt":"2026-11-28T06:00:00Z"}',
      '{"sessionId":"abc","name":"Kari","userInfo":{"sub":"1"}}',
    ].map((body): [Scheme, string, string] => ['vipps', body, hashOf(body)]),
    ['vipps', '{"agreementId":"agr_1","eventId":"e-1","eventType":"recurring.charge-captured.v1"}', 'e-1'],
    [
      'vipps',
      '{"name":"CAPTURED","reference":"ordre 7/æ","pspReference":"123"}',
      hashOf('["CAPTURED","ordre 7/æ","123"]'),
    ],
    [
      'vipps',
      '{"pspReference":"123","name":"CAPTURED","success":true,"reference":"acme:1"}',
      hashOf('["CAPTURED","acme:1","123"]'),
    ],
    ['criipto', '{}', '44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a'],
    ['criipto', 'not json', createHash('sha256').update('not json').digest('hex')],
    ['standard', '{"id":"other","eventId":"other"}', 'msg_1'],
  ])('the event id under %s of the body %s is %s', (scheme, body, eventId) => {
    expect(verifyWebhook(scheme, signedBy(scheme, { body: Buffer.from(body) }))).toMatchObject({
      ok: true,
      eventId,
    });
  });
});

describe('the event type', () => {
  test.each<[Scheme, string, Record<string, string>, string | null]>([
    [
      'vipps',
      '{"agreementId":"a","eventType":"recurring.charge-captured.v1"}',
      {},
      'recurring.charge-captured.v1',
    ],
    ['vipps', '{"sessionId":"a","name":"SESSION_EXPIRED"}', {}, 'SESSION_EXPIRED'],
    ['vipps', '{"sub":"a","name":"Kari"}', {}, null],
    ['github-style', '{"type":"x"}', { 'x-github-event': 'push' }, 'x'],
    ['github-style', '{"ref":"a"}', { 'x-github-event': 'push' }, 'push'],
    ['github-style', '{"action":"opened"}', { 'x-github-event': 'pull_request' }, 'pull_request.opened'],
    ['github-style', '{"action":"opened"}', {}, null],
  ])('the type under %s of the body %s with the headers %j is %s', (scheme, body, headers, eventType) => {
    const request = signedBy(scheme, { body: Buffer.from(body) });
    for (const [name, value] of Object.entries(headers)) request.headers.set(name, value);
    expect(verifyWebhook(scheme, request)).toMatchObject({ ok: true, eventType });
  });
});

describe("GitHub's own deliveries", () => {
  const delivery = (id: string, body = '{"action":"opened","number":2}') => {
    const request = signedBy('github-style', { body: Buffer.from(body) });
    return withHeader(request, 'x-github-delivery', id);
  };

  test('have the id of their header, which is not signed, unless the signed body has one', () => {
    const id = '72d3162e-cc78-11e3-81ab-4c9367dc0958';
    expect(verifyWebhook('github-style', delivery(id))).toMatchObject({ eventId: id, isIdUnsigned: true });
    const signed = verifyWebhook('github-style', delivery(id, '{"id":5,"sha":"a"}'));
    expect(signed).toMatchObject({ eventId: '5' });
    expect(signed).not.toHaveProperty('isIdUnsigned');
    expect(verifyWebhook('github-style', delivery('a b'))).toMatchObject({ ok: true, eventId: null });
  });

  test.each(['x-signature', 'x-hub-signature-256'])(
    'and those of providers that copied them may be signed in %s, with sha256= or without',
    (header) => {
      const request = signedBy('github-style', { header });
      const value = request.headers.get(header)!;
      const configured = { ...request, signatureHeader: header };
      expect(verifyWebhook('github-style', configured).ok).toBe(true);
      const bare = withHeader(configured, header, value.replace('sha256=', ''));
      expect(verifyWebhook('github-style', { ...configured, headers: bare.headers }).ok).toBe(true);
      const sha1 = withHeader(configured, header, value.replace('sha256', 'sha1'));
      expect(verifyWebhook('github-style', { ...configured, headers: sha1.headers }).ok).toBe(false);
      const elsewhere = { ...configured, signatureHeader: 'x-other' };
      expect(verifyWebhook('github-style', elsewhere)).toEqual({ ok: false, reason: 'missing_header' });
    },
  );
});

describe('an event id in the body', () => {
  test.each([
    [255, true],
    [256, false],
  ])('an event id of %s characters is usable: %s', (length, isUsable) => {
    const id = 'a'.repeat(length);
    const verdict = verifyWebhook(
      'stripe',
      signedBy('stripe', { body: Buffer.from(JSON.stringify({ id })) }),
    );
    expect(verdict).toMatchObject({ ok: true, eventId: isUsable ? id : null });
  });
});

describe('a secret', () => {
  const bytes = (length: number) => Buffer.alloc(length, 'k').toString('base64');

  test.each<[Scheme, string, string, boolean]>([
    ['standard', 'of 24 bytes', `whsec_${bytes(24)}`, true],
    ['standard', "of 18 bytes, as in Svix's documentation", 'whsec_plJ3nmyCDGBKInavdOK15jsl', true],
    ['standard', 'without its prefix', bytes(24), true],
    ['standard', 'without its padding', `whsec_${bytes(25).replaceAll('=', '')}`, true],
    ['standard', 'of 15 bytes', `whsec_${bytes(15)}`, false],
    ['standard', 'with half of its padding', `whsec_${bytes(25).slice(0, -1)}`, false],
    ['standard', 'that is not base64', 'whsec_this is no base64 at all, is it', false],
    ['standard', 'in url-safe base64', `whsec_${'_-'.repeat(16)}`, false],
    ['standard', 'that is the private key of the sender', `whsk_${bytes(32)}`, false],
    ['standard', 'that is a public key of 31 bytes', `whpk_${bytes(31)}`, false],
    ['standard', 'with white space after it', `whsec_${bytes(24)}\n`, false],
    ['stripe', 'as in the official tests', 'whsec_test_secret', true],
    ['stripe', 'with white space after it', 'whsec_test_secret\n', false],
    ['stripe', 'that is its prefix and three characters', 'whsec_abc', false],
    ['vipps', 'as Vipps issues them', bytes(64), true],
    ['criipto', 'of 32 bytes', bytes(32), true],
    ['criipto', 'of 31 bytes', bytes(31), false],
    ['criipto', 'with the prefix of another scheme', `whsec_${bytes(32)}`, false],
    ['github-style', "as in GitHub's documentation", "It's a Secret to Everybody", true],
    ['github-style', 'that is a prefix of another scheme', 'whsec_', false],
  ])('a secret of %s %s (%j) is usable: %s', (scheme, _, secret, isUsable) => {
    expect(isUsableSecret(scheme, secret)).toBe(isUsable);
  });
});

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

// Vectors

function vectors() {
  const vector = z.object({
    id: z.string(),
    scheme: z.enum(schemes),
    secret: z.string(),
    headers: z.record(z.string(), z.string()),
    body: z.string(),
    bodyEncoding: z.enum(['utf8', 'base64', 'hex']),
    now: z.number().nullable(),
    tolerance: z.number().optional(),
    request: z.object({ method: z.literal('POST'), host: z.string(), pathAndQuery: z.string() }).optional(),
    expect: z.enum(['valid', 'invalid']),
    why: z.string(),
  });
  const file = new URL('../fixtures/webhooks.json', import.meta.url);
  return z.array(vector).parse(JSON.parse(readFileSync(file, 'utf8')));
}

type Vector = ReturnType<typeof vectors>[number];

type Original = [title: string, scheme: Scheme, request: SignedWebhook];

interface SignedWebhook extends WebhookRequest {
  readonly headers: Headers;
}

function requestOf({ secret, headers, body, bodyEncoding, now, tolerance, request }: Vector): SignedWebhook {
  return {
    secrets: [secret],
    headers: new Headers(headers),
    body: Buffer.from(body, bodyEncoding),
    url: request ? `https://${request.host}${request.pathAndQuery}` : 'https://postbud.example/webhooks/any',
    now: now ?? Date.now() / 1000,
    ...(tolerance !== undefined && { toleranceSeconds: tolerance }),
  };
}

// Sending

function signedBy(scheme: Scheme, sending: Partial<Signing> & { body?: Buffer } = {}): SignedWebhook {
  const { body = bodyOf(), ...signing } = sending;
  return {
    secrets: [secretsOf[scheme][0]],
    headers: new Headers(sign(scheme, body, { at: NOW, url: URL_OF_WEBHOOK, ...signing })),
    body,
    url: URL_OF_WEBHOOK,
    now: NOW,
  };
}

// Changes

/** `Host` is left out: it is the sender's word, and `vipps` takes the host from the URL. */
function signedHeaders({ headers }: SignedWebhook): string[] {
  return [...headers.keys()].filter((name) => name !== 'host');
}

function withHeader(request: SignedWebhook, name: string, value: string): SignedWebhook {
  const headers = new Headers(request.headers);
  headers.set(name, value);
  return { ...request, headers };
}

/** Leaves of several candidates the one that makes the request valid, so that no other can stand in for it. */
function withDecisiveSignature(scheme: Scheme, request: SignedWebhook): SignedWebhook {
  const alternatives = [...request.headers].flatMap(([name, value]) => {
    if (name.endsWith('-signature') && scheme === 'standard') {
      return value.split(' ').map((candidate) => withHeader(request, name, candidate));
    }
    if (scheme === 'stripe') {
      const [time, ...candidates] = value.split(',');
      return candidates.map((candidate) => withHeader(request, name, `${time},${candidate}`));
    }
    return [];
  });
  const decisive = alternatives.filter((alternative) => verifyWebhook(scheme, alternative).ok);
  expect(decisive).toHaveLength(scheme === 'standard' || scheme === 'stripe' ? 1 : 0);
  return decisive[0] ?? request;
}

function replacementsOf(character: string): string[] {
  const otherCase = character === character.toLowerCase() ? character.toUpperCase() : character.toLowerCase();
  return ['A', 'B', '0', '1', ',', '=', otherCase].filter((replacement) => replacement !== character);
}

function timestampsMovedBy(seconds: number, { headers }: SignedWebhook): [name: string, value: string][] {
  return [...headers].flatMap(([name, value]): [string, string][] => {
    if (name.endsWith('-timestamp')) return [[name, `${Number(value) + seconds}`]];
    if (name === 'x-ms-date') return [[name, new Date(Date.parse(value) + seconds * 1000).toUTCString()]];
    if (name !== 'stripe-signature') return [];
    return [[name, value.replace(/t=(\d+)/, (_, time) => `t=${Number(time) + seconds}`)]];
  });
}
