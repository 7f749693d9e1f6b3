import { createHash, createHmac, generateKeyPairSync, sign } from 'node:crypto';
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { Webhook } from 'standardwebhooks';
import Stripe from 'stripe';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { type Scheme, schemes } from '../../lib/config.ts';
import { isUsableSecret, verifyWebhook, type WebhookRequest } from '../../lib/webhooks/verify.ts';

const NOW = 1_700_000_000;

const URL_OF_WEBHOOK = 'https://postbud.example/webhooks/walletpayments?a=1';

/** Two of each scheme: the one that is configured, and another. */
const secretsOf: Record<Scheme, [configured: string, other: string]> = {
  standard: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD'],
  stripe: ['whsec_test_secret', 'whsec_test_secret_rolled_key'],
  vipps: ['A0+AeKBRG2KRGvnNwJpQlb6IJFk48CKXCIcrLoHncVJKDILsQSxS6NWCccwWm6r6', 'another-secret'],
  criipto: [base64('a secret of at least 32 bytes, one'), base64('a secret of at least 32 bytes, two')],
  'github-style': ['mysecret', 'development'],
};

/** A body in which every scheme finds its own fields. */
const BODY = Buffer.from(
  JSON.stringify({
    id: 'evt_1',
    type: 'charge.refunded',
    event: 'SIGNATURE_ORDER_EXPIRED',
    name: 'CAPTURED',
    reference: 'acme-1',
    pspReference: '123',
  }),
);

const eventOf: Record<Scheme, { eventId: string; eventType: string }> = {
  standard: { eventId: 'msg_1', eventType: 'charge.refunded' },
  stripe: { eventId: 'evt_1', eventType: 'charge.refunded' },
  vipps: { eventId: 'CAPTURED:acme-1:123', eventType: 'CAPTURED' },
  criipto: {
    eventId: createHash('sha256').update(BODY).digest('hex'),
    eventType: 'SIGNATURE_ORDER_EXPIRED',
  },
  'github-style': { eventId: 'evt_1', eventType: 'charge.refunded' },
};

/** A sender of each scheme, written from the providers' documentation. */
const signers: Record<Scheme, Signer> = {
  standard: (
    body,
    { secret, key = Buffer.from(secret.slice(6), 'base64'), id = 'msg_1', date = `${NOW}` },
  ) => ({
    'webhook-id': id,
    'webhook-timestamp': date,
    'webhook-signature': `v1,${hmac(key, `${id}.${date}.`, body).toString('base64')}`,
  }),
  stripe: (body, { secret, key = Buffer.from(secret), date = `${NOW}` }) => ({
    'stripe-signature': `t=${date},v1=${hmac(key, `${date}.`, body).toString('hex')}`,
  }),
  vipps: (body, { secret, key = Buffer.from(secret), date, host = 'postbud.example', method = 'POST' }) => {
    const signedAt = date ?? new Date(NOW * 1000).toUTCString();
    const hash = createHash('sha256').update(body).digest('base64');
    const text = `${method}\n/webhooks/walletpayments?a=1\n${signedAt};${host};${hash}`;
    const signature = hmac(key, text).toString('base64');
    return {
      'x-ms-date': signedAt,
      'x-ms-content-sha256': hash,
      authorization: `HMAC-SHA256 SignedHeaders=x-ms-date;host;x-ms-content-sha256&Signature=${signature}`,
    };
  },
  criipto: (body, { secret, key = Buffer.from(secret, 'base64') }) => ({
    'X-Criipto-Signature': hmac(key, body).toString('base64'),
  }),
  'github-style': (body, { secret, key = Buffer.from(secret) }) => ({
    'X-Hub-Signature-256': `sha256=${hmac(key, body).toString('hex')}`,
  }),
};

describe('published test vectors', () => {
  test.each(
    vectors().map((vector) => [vector.scheme, vector.id, vector.expect, vector.why, vector] as const),
  )('%s: %s is %s, since %s', (scheme, _, verdict, __, vector) => {
    expect(verifyWebhook(scheme, requestOf(vector)).ok).toBe(verdict === 'valid');
  });

  test('cover every scheme', () => {
    expect(new Set(vectors().map(({ scheme }) => scheme))).toEqual(new Set(schemes));
  });
});

describe('a valid request that is changed', () => {
  const originals = [
    ...vectors()
      .filter(({ expect: verdict }) => verdict === 'valid')
      .map((vector): Original => [vector.id, vector.scheme, requestOf(vector)]),
    ...schemes.map((scheme): Original => [`our own ${scheme}`, scheme, signedBy(scheme)]),
  ];

  test.each(originals)('in one byte of the body is refused (%s)', (_, scheme, request) => {
    for (let index = 0; index < request.body.length; index += 1) {
      const body = Uint8Array.from(request.body, (byte, at) => (at === index ? byte ^ 1 : byte));
      expect(verifyWebhook(scheme, { ...request, body }).ok).toBe(false);
    }
  });

  test.each(originals)('by a byte more or less is refused (%s)', (_, scheme, request) => {
    for (const body of [
      request.body.subarray(1),
      request.body.subarray(0, -1),
      Buffer.concat([request.body, Buffer.from('\n')]),
      Buffer.concat([Buffer.from('\uFEFF'), request.body]),
    ]) {
      expect(verifyWebhook(scheme, { ...request, body }).ok).toBe(false);
    }
  });

  test.each(originals)('by leaving out a header is refused (%s)', (_, scheme, request) => {
    for (const name of signedHeaders(request)) {
      const headers = new Headers(request.headers);
      headers.delete(name);
      expect(verifyWebhook(scheme, { ...request, headers })).toEqual({ ok: false, reason: 'missing_header' });
    }
  });

  test.each(originals)('in one character of a header is refused (%s)', (_, scheme, request) => {
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
  });

  const timed = originals.filter(([, , request]) => timestampsMovedBy(1, request).length > 0);

  test.each(timed)('in its timestamp by a second is refused (%s)', (_, scheme, request) => {
    for (const step of [-1, 1]) {
      for (const [name, value] of timestampsMovedBy(step, request)) {
        expect(verifyWebhook(scheme, withHeader(request, name, value)).ok).toBe(false);
      }
    }
  });

  test('in method, path, query or host is refused where these are signed', () => {
    const request = signedBy('vipps');
    for (const url of [
      'https://postbud.example/webhooks/walletpayments',
      'https://postbud.example/webhooks/walletpayments?a=2',
      'https://postbud.example/webhooks/walletpayments/?a=1',
      'https://postbud.example/Webhooks/walletpayments?a=1',
      'https://postbud.example:8443/webhooks/walletpayments?a=1',
      'https://postbud.example.evil.test/webhooks/walletpayments?a=1',
    ]) {
      expect(verifyWebhook('vipps', { ...request, url })).toEqual({
        ok: false,
        reason: 'signature_mismatch',
      });
    }
    const asGet = signedBy('vipps', { method: 'GET' });
    expect(verifyWebhook('vipps', asGet)).toEqual({ ok: false, reason: 'signature_mismatch' });
  });
});

describe.each(schemes)('the scheme %s', (scheme) => {
  const [secret, otherSecret] = secretsOf[scheme];
  const request = signedBy(scheme);

  test('accepts what was signed with its secret, and names the event', () => {
    expect(verifyWebhook(scheme, request)).toEqual({ ok: true, ...eventOf[scheme] });
  });

  test('takes headers as a plain record, whatever the case of their names', () => {
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
  ])('refuses everything while it has %s', (_, secrets) => {
    expect(secrets.some((candidate) => isUsableSecret(scheme, candidate))).toBe(false);
    expect(verifyWebhook(scheme, { ...request, secrets })).toEqual({ ok: false, reason: 'no_usable_secret' });
  });

  test('never uses an empty key, even when the sender does', () => {
    const forged = signedBy(scheme, { key: Buffer.alloc(0) });
    for (const secrets of [[], [''], ['whsec_'], ['', secret]]) {
      expect(verifyWebhook(scheme, { ...forged, secrets }).ok).toBe(false);
    }
  });

  test('refuses another secret', () => {
    const refused = { ok: false, reason: 'signature_mismatch' };
    expect(verifyWebhook(scheme, { ...request, secrets: [otherSecret] })).toEqual(refused);
    expect(verifyWebhook(scheme, signedBy(scheme, { secret: otherSecret }))).toEqual(refused);
  });

  test.each([
    ['new, old', [otherSecret, secret]],
    ['old, new', [secret, otherSecret]],
    ['unusable, old, new', ['', secret, otherSecret]],
  ])('accepts the old and the new secret while both are configured (%s)', (_, secrets) => {
    for (const signer of [secret, otherSecret]) {
      expect(verifyWebhook(scheme, { ...signedBy(scheme, { secret: signer }), secrets }).ok).toBe(true);
    }
  });

  test('verifies bytes and not the text they decode to', () => {
    const signedText = signedBy(scheme, { body: Buffer.from('{"a":"\uFFFD"}') });
    const invalidBytes = Buffer.from([...Buffer.from('{"a":"'), 0xff, ...Buffer.from('"}')]);
    expect(verifyWebhook(scheme, signedText).ok).toBe(true);
    expect(verifyWebhook(scheme, { ...signedText, body: invalidBytes }).ok).toBe(false);
    expect(verifyWebhook(scheme, signedBy(scheme, { body: invalidBytes })).ok).toBe(true);
  });

  test('accepts a signed body that is not JSON, without an event type', () => {
    for (const text of ['', 'example payload', '[]', '{"type":{"a":1}}', '{"type":"a\\u0000b"}']) {
      const verdict = verifyWebhook(scheme, signedBy(scheme, { body: Buffer.from(text) }));
      expect(verdict).toMatchObject({ ok: true, eventType: null });
    }
  });

  test('refuses each signed header that arrives twice, as the same value or another', () => {
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

  test('refuses each signed header that is empty, in capitals, or with white space inside', () => {
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

  test('does not look at 5,000 candidates, however they are separated and although all of them are right', () => {
    for (const name of signedHeaders(request)) {
      const value = request.headers.get(name) ?? '';
      for (const separator of [' ', ',', ', ', '&']) {
        const list = Array<string>(5000).fill(value).join(separator);
        const verdict = verifyWebhook(scheme, withHeader(request, name, list));
        expect(verdict).toEqual({ ok: false, reason: 'malformed_header' });
      }
    }
  });

  test('answers garbage in its headers without throwing, and never accepts it', () => {
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

describe.each(['standard', 'stripe', 'vipps'] as const)('the time that %s signs', (scheme) => {
  test.each([300, 60])('may be off by up to the tolerance, both ways (%s s)', (toleranceSeconds) => {
    for (const offset of [0, toleranceSeconds, -toleranceSeconds]) {
      const request = { ...signedBy(scheme), toleranceSeconds };
      expect(verifyWebhook(scheme, { ...request, now: NOW + offset }).ok).toBe(true);
      expect(verifyWebhook(scheme, { ...request, now: NOW + offset + Math.sign(offset) }).ok).toBe(
        offset === 0,
      );
    }
  });

  test('may be off by 300 s when no tolerance is given, and is not looked at when it is 0', () => {
    expect(verifyWebhook(scheme, { ...signedBy(scheme), now: NOW + 300 }).ok).toBe(true);
    expect(verifyWebhook(scheme, { ...signedBy(scheme), now: NOW - 300 }).ok).toBe(true);
    expect(verifyWebhook(scheme, { ...signedBy(scheme), now: 0, toleranceSeconds: 0 }).ok).toBe(true);
  });

  test('is refused 301 s away, ten years away and by a clock that is not a number', () => {
    for (const now of [NOW + 301, NOW - 301, NOW - 315_360_000, NOW * 1000, Number.NaN]) {
      const verdict = verifyWebhook(scheme, { ...signedBy(scheme), now });
      expect(verdict).toEqual({ ok: false, reason: 'timestamp_out_of_tolerance' });
    }
  });

  test('is refused in any other notation, even when that is what was signed', () => {
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
      ],
    };
    for (const date of scheme === 'vipps' ? notations.http : notations.unix) {
      const verdict = verifyWebhook(scheme, signedBy(scheme, { date }));
      expect(verdict, date).toEqual({ ok: false, reason: 'malformed_header' });
    }
  });
});

describe('official SDKs sign what is accepted', () => {
  const body = Buffer.from('{"id":"evt_1","object":"event","type":"charge.refunded","text":"blåbær 🫐"}');

  test('stripe, with one secret and with another', () => {
    const [secret, otherSecret] = secretsOf.stripe;
    const header = Stripe.webhooks.generateTestHeaderString({
      payload: body.toString(),
      secret,
      timestamp: NOW,
    });
    const request = {
      headers: { 'Stripe-Signature': header },
      body,
      url: 'https://postbud.example/',
      now: NOW,
    };
    expect(verifyWebhook('stripe', { ...request, secrets: [secret] })).toEqual({
      ok: true,
      eventId: 'evt_1',
      eventType: 'charge.refunded',
    });
    expect(verifyWebhook('stripe', { ...request, secrets: [otherSecret] }).ok).toBe(false);
  });

  test('stripe, but not under its test scheme v0', () => {
    const [secret] = secretsOf.stripe;
    const payload = body.toString();
    const header = Stripe.webhooks.generateTestHeaderString({
      payload,
      secret,
      timestamp: NOW,
      scheme: 'v0',
    });
    const request = {
      headers: { 'Stripe-Signature': header },
      body,
      url: 'https://postbud.example/',
      now: NOW,
    };
    expect(verifyWebhook('stripe', { ...request, secrets: [secret] }).ok).toBe(false);
  });

  test('standardwebhooks, under both sets of header names', () => {
    const [secret, otherSecret] = secretsOf.standard;
    const signature = new Webhook(secret).sign('msg_1', new Date(NOW * 1000), body.toString());
    for (const brand of ['webhook', 'svix']) {
      const headers = {
        [`${brand}-id`]: 'msg_1',
        [`${brand}-timestamp`]: `${NOW}`,
        [`${brand}-signature`]: signature,
      };
      const request = { headers, body, url: 'https://postbud.example/', now: NOW };
      expect(verifyWebhook('standard', { ...request, secrets: [secret] })).toEqual({
        ok: true,
        eventId: 'msg_1',
        eventType: 'charge.refunded',
      });
      expect(verifyWebhook('standard', { ...request, secrets: [otherSecret] }).ok).toBe(false);
    }
  });
});

describe('Standard Webhooks', () => {
  test('an id with a full stop is refused, as it can hide a timestamp', () => {
    const body = Buffer.from(`${NOW}.{"type":"login.succeeded"}`);
    const signed = signedBy('standard', { id: 'evil', body });
    expect(verifyWebhook('standard', signed).ok).toBe(true);
    const shifted = withHeader(signed, 'webhook-id', `evil.${NOW}`);
    const forged = { ...shifted, body: Buffer.from('{"type":"login.succeeded"}') };
    expect(verifyWebhook('standard', forged)).toEqual({ ok: false, reason: 'malformed_header' });
  });

  test.each(['a b', 'a,b', 'æ', 'a/b', 'a:b', 'a'.repeat(256)])(
    'an id that was signed, but is too long or not of letters, digits, _ and -, is no id (%$)',
    (id) => {
      expect(verifyWebhook('standard', signedBy('standard', { id }))).toMatchObject({
        ok: true,
        eventId: null,
      });
    },
  );

  test('the two sets of header names are not mixed', () => {
    const request = signedBy('standard');
    const signature = request.headers.get('webhook-signature') ?? '';
    const headers = new Headers(request.headers);
    headers.delete('webhook-signature');
    headers.set('svix-signature', signature);
    expect(verifyWebhook('standard', { ...request, headers })).toEqual({
      ok: false,
      reason: 'missing_header',
    });
  });

  test('a match is found at any place in a list of 16, and a 17th candidate is one too many', () => {
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

  test('a public key verifies v1a, and neither key takes the place of the other', () => {
    const { publicKey, privateKey } = generateKeyPairSync('ed25519');
    const publicBytes = Buffer.from(publicKey.export({ format: 'jwk' }).x ?? '', 'base64url');
    const whpk = `whpk_${publicBytes.toString('base64')}`;
    const hmacSecret = `whsec_${publicBytes.toString('base64')}`;
    const body = Buffer.from('{"type":"login.succeeded"}');
    const v1a = `v1a,${sign(null, Buffer.from(`msg_1.${NOW}.${body}`), privateKey).toString('base64')}`;
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

  test('a public key of any 32 bytes verifies nothing by chance and does not throw', () => {
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

describe('Stripe', () => {
  const request = signedBy('stripe');
  const header = request.headers.get('stripe-signature') ?? '';
  const [, signature] = header.split(',v1=');

  test.each([
    ['another v1 before', `t=${NOW},v1=${'0'.repeat(64)},v1=${signature}`, true],
    ['a v0 beside', `t=${NOW},v0=potato,v1=${signature}`, true],
    ['an unknown item', `t=${NOW},v2=x=y,v1=${signature}`, true],
    ['the time last', `v1=${signature},t=${NOW}`, true],
    ['two times that are equal', `t=${NOW},t=${NOW},v1=${signature}`, false],
    ['no time', `v1=${signature}`, false],
    ['no v1', `t=${NOW}`, false],
    ['the signature as v0', `t=${NOW},v0=${signature}`, false],
    ['an item without a value', `t=${NOW},v1,v1=${signature}`, false],
    ['a space between items', `t=${NOW}, v1=${signature}`, false],
    ['upper-case hex', `t=${NOW},v1=${signature?.toUpperCase()}`, false],
    ['17 signatures', `t=${NOW}${`,v1=${signature}`.repeat(17)}`, false],
  ])('a header with %s', (_, value, isAccepted) => {
    expect(verifyWebhook('stripe', withHeader(request, 'stripe-signature', value)).ok).toBe(isAccepted);
  });
});

describe('Vipps', () => {
  test('the host comes from the configured URL, whatever the Host header says', () => {
    const request = signedBy('vipps');
    expect(verifyWebhook('vipps', withHeader(request, 'host', 'evil.test')).ok).toBe(true);
    const forEvil = { ...signedBy('vipps', { host: 'evil.test' }), url: request.url };
    expect(verifyWebhook('vipps', withHeader(forEvil, 'host', 'evil.test')).ok).toBe(false);
  });

  test('a body that does not fit its signed hash is told apart from a wrong signature', () => {
    const verdict = verifyWebhook('vipps', { ...signedBy('vipps'), body: Buffer.from('{}') });
    expect(verdict).toEqual({ ok: false, reason: 'content_hash_mismatch' });
  });

  test.each([
    ['other headers', 'HMAC-SHA256 SignedHeaders=host;x-ms-date;x-ms-content-sha256&Signature='],
    ['fewer headers', 'HMAC-SHA256 SignedHeaders=x-ms-date;host&Signature='],
    ['another scheme', 'Bearer SignedHeaders=x-ms-date;host;x-ms-content-sha256&Signature='],
    ['a scheme in lower case', 'hmac-sha256 SignedHeaders=x-ms-date;host;x-ms-content-sha256&Signature='],
    ['the legacy short form', 'HMAC-SHA256 '],
  ])('an authorization with %s is refused', (_, prefix) => {
    const request = signedBy('vipps');
    const [, signature] = request.headers.get('authorization')?.split('&Signature=') ?? [];
    const changed = withHeader(request, 'authorization', `${prefix}${signature}`);
    expect(verifyWebhook('vipps', changed)).toEqual({ ok: false, reason: 'malformed_header' });
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
    ['github-style', '{"eventId":1,"id":"i-1"}', null],
    ['github-style', '{"foo":"bar"}', null],
    ['vipps', '{"name":"CAPTURED","reference":"acme-1","pspReference":"123"}', 'CAPTURED:acme-1:123'],
    ['vipps', '{"name":"CAPTURED","reference":"acme-1"}', null],
    ['vipps', '{"name":"CAPTURED","reference":"acme-1","pspReference":123}', null],
    ['vipps', '{"name":"CAPTURED","reference":"acme:1","pspReference":"123"}', null],
    ['vipps', '{"name":"CAPTURED","reference":"","pspReference":"123"}', null],
    ['criipto', '{}', '44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a'],
    ['criipto', 'not json', createHash('sha256').update('not json').digest('hex')],
    ['standard', '{"id":"other","eventId":"other"}', 'msg_1'],
  ])('of the scheme %s with the body %s is %s', (scheme, body, eventId) => {
    expect(verifyWebhook(scheme, signedBy(scheme, { body: Buffer.from(body) }))).toMatchObject({
      ok: true,
      eventId,
    });
  });
});

describe('an event id in the body', () => {
  test.each([
    [255, true],
    [256, false],
  ])('of %s characters is usable: %s', (length, isUsable) => {
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
  ])('of the scheme %s %s is usable or not: %j is %s', (scheme, _, secret, isUsable) => {
    expect(isUsableSecret(scheme, secret)).toBe(isUsable);
  });

  test("GitHub's documented example verifies with a secret that has spaces", () => {
    const verdict = verifyWebhook('github-style', {
      secrets: ["It's a Secret to Everybody"],
      headers: {
        'X-Hub-Signature-256': 'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17',
      },
      body: Buffer.from('Hello, World!'),
      url: 'https://postbud.example/',
      now: NOW,
    });
    expect(verdict.ok).toBe(true);
  });
});

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

interface Sending {
  secret?: string;
  /** Signs with these bytes instead of the secret's. */
  key?: Uint8Array;
  body?: Buffer;
  id?: string;
  /** In the scheme's notation. */
  date?: string;
  host?: string;
  method?: string;
}

function signedBy(scheme: Scheme, sending: Sending = {}): SignedWebhook {
  const [configured] = secretsOf[scheme];
  const body = sending.body ?? BODY;
  return {
    secrets: [configured],
    headers: new Headers(signers[scheme](body, { secret: configured, ...sending })),
    body,
    url: URL_OF_WEBHOOK,
    now: NOW,
  };
}

type Signer = (body: Buffer, sending: Sending & { secret: string }) => Record<string, string>;

function hmac(key: Uint8Array, ...parts: (string | Uint8Array)[]): Buffer {
  const mac = createHmac('sha256', key);
  for (const part of parts) mac.update(part);
  return mac.digest();
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
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
