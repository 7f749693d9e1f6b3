import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';

import { partnersOf } from '../../dev/partners.ts';
import { verifyWebhook } from '../../lib/edge/webhooks/verify.ts';
import { providers, schemes } from '../../lib/platform/config.ts';
import type { Provider } from '../../lib/platform/config.ts';

// The demo's webhooks have to pass whatever secrets and schemes the user has chosen.

const URL_OF_SERVER = 'http://localhost:3000';
const SECRET = Buffer.alloc(32, 7).toString('base64');
const bodies: Readonly<Record<Provider, object>> = {
  cardpayments: { id: 'evt_1', type: 'payment_intent.succeeded' },
  walletpayments: { reference: 'wallet-1', pspReference: 'psp-1', name: 'CAPTURED' },
  identityprovider: { type: 'login.succeeded' },
};

let sent: Request[];
beforeEach(() => {
  vi.spyOn(process.stdout, 'write').mockReturnValue(true);
  sent = [];
});

afterEach(() => void vi.unstubAllEnvs());

async function send(provider: Provider, fields: object = {}): Promise<Response> {
  vi.spyOn(globalThis, 'fetch').mockImplementation(async (url, init) => {
    sent.push(new Request(url, init));
    return Response.json({});
  });
  const body = JSON.stringify({ provider, id: 'evt_1', body: bodies[provider], ...fields });
  const headers = { 'content-type': 'application/json' };
  const request = new Request(`${URL_OF_SERVER}/dev/webhooks`, { method: 'POST', headers, body });
  return await partnersOf(() => URL_OF_SERVER).fetch(request);
}

async function verified(scheme: (typeof schemes)[number], request: Request | undefined) {
  const { url, headers } = request!;
  const body = new Uint8Array(await request!.arrayBuffer());
  return verifyWebhook(scheme, { secrets: [SECRET], headers, body, url, now: Date.now() / 1000 });
}

describe.each(schemes)('under the scheme %s', (scheme) => {
  test.each(providers)(
    'a webhook of %s passes, is the same event again, and does not pass forged',
    async (provider) => {
      vi.stubEnv(`WEBHOOK_${provider.toUpperCase()}_SCHEME`, scheme);
      vi.stubEnv(`WEBHOOK_${provider.toUpperCase()}_SECRET`, SECRET);
      for (const fields of [{}, {}, { isForged: true }])
        expect((await send(provider, fields)).status).toBe(200);
      const [first, again, forged] = await Promise.all(sent.map((request) => verified(scheme, request)));
      expect(sent.map(({ url }) => url)).toEqual(Array(3).fill(`${URL_OF_SERVER}/webhooks/${provider}`));
      expect(first).toMatchObject({ ok: true, eventId: expect.stringMatching(/./) });
      expect(again).toEqual(first);
      expect(forged!.ok).toBe(false);
    },
  );
});

test('a provider with only a public key sends nothing, and its variable is named', async () => {
  vi.stubEnv('WEBHOOK_CARDPAYMENTS_SECRET', `whpk_${SECRET}`);
  const response = await send('cardpayments');
  expect([response.status, await response.json()]).toEqual([
    422,
    { code: 'cannot_sign', detail: 'WEBHOOK_CARDPAYMENTS_SECRET holds no secret to sign with.' },
  ]);
  expect(sent).toEqual([]);
});
