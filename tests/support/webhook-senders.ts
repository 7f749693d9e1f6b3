import { sign as signAs } from '../../lib/edge/webhooks/sign.ts';
import type { Signing as Signed } from '../../lib/edge/webhooks/sign.ts';
import type { Scheme } from '../../lib/platform/config.ts';

/** In every secret and body of these senders; an answer or a log line that holds it has leaked. */
export const CANARY = 'kanarifugl';

/** Two secrets for each scheme: the configured one, and another. */
export const secretsOf: Readonly<Record<Scheme, readonly [configured: string, other: string]>> = {
  standard: [
    `whsec_${base64(`${CANARY} of at least 24 bytes`)}`,
    `whsec_${base64('another key of 24 bytes')}`,
  ],
  stripe: [`whsec_${CANARY}_stripe`, 'whsec_test_secret_rolled_key'],
  vipps: [`A0+AeKBRG2KRGvnNwJpQlb6IJFk48CKX-${CANARY}`, 'another-secret'],
  criipto: [base64(`${CANARY} of at least 32 bytes for Idura`), base64('a secret of at least 32 bytes, two')],
  'github-style': [`${CANARY}-hub`, 'development'],
};

export const WEBHOOK_URL = 'https://postbud.example/webhooks/cardpayments';

/** A body in which every scheme finds its own fields. @param length pads it to so many bytes. */
export function bodyOf(length = 0): Buffer {
  const fields = {
    id: 'evt_1',
    type: 'charge.refunded',
    event: 'SIGNATURE_ORDER_EXPIRED',
    name: 'CAPTURED',
    reference: 'acme-1',
    pspReference: '42',
    data: { amount: 1200, text: CANARY, letters: 'blåbær 🫐' },
  };
  const bare = Buffer.byteLength(JSON.stringify({ ...fields, padding: '' }));
  return Buffer.from(JSON.stringify(length ? { ...fields, padding: 'x'.repeat(length - bare) } : fields));
}

/** What a sender signs with. Every field but `at` has a default that makes the request valid. */
export type Signing = Pick<Signed, 'at'> & Partial<Signed>;

/** Signs a body as a provider of the scheme does. @returns the signature's headers. */
export function sign(scheme: Scheme, body: Uint8Array, signing: Signing): Record<string, string> {
  return signAs(scheme, body, { secret: secretsOf[scheme][0], url: WEBHOOK_URL, ...signing });
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}
