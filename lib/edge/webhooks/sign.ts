import { createHash, createHmac } from 'node:crypto';

import type { Scheme } from '../../platform/config.ts';

/** What a sender signs with. Every field but `at` and `secret` has a default that makes the request valid. */
export interface Signing {
  readonly secret: string;
  /** Signs with these bytes instead of the secret's. */
  readonly key?: Uint8Array;
  /** The event's id, where a header carries it. */
  readonly id?: string;
  /** The time of signing in Unix seconds. */
  readonly at: number;
  /** The time as the header writes it, instead of the scheme's own notation of `at`. */
  readonly date?: string;
  /** Where the request is sent; the scheme may sign the host and the path. */
  readonly url: string;
  /** The header of the signature, where it is not the scheme's own. */
  readonly header?: string | undefined;
  readonly host?: string;
  readonly target?: string;
  readonly method?: string;
  readonly lineBreak?: string;
}

/**
 * Signs a body as a provider of the scheme does, with a symmetric secret.
 *
 * Written from the providers' documentation, over bytes: their own libraries sign text only. It shares nothing with what
 * verifies signatures, so that neither repeats a mistake of the other.
 *
 * @returns the signature's headers.
 */
export function sign(scheme: Scheme, body: Uint8Array, signing: Signing): Record<string, string> {
  return signers[scheme](body, signing);
}

/** `HMAC-SHA256`, whatever the parts are made of. */
export function hmac(key: string | Uint8Array, ...parts: (string | Uint8Array)[]): Buffer {
  const mac = createHmac('sha256', key);
  for (const part of parts) mac.update(part);
  return mac.digest();
}

type Signer = (body: Uint8Array, signing: Signing) => Record<string, string>;

const signers: Record<Scheme, Signer> = {
  standard(body, { secret, key = bytesOf(secret.replace(/^whsec_/, '')), id = 'msg_1', at, date = `${at}` }) {
    return {
      'webhook-id': id,
      'webhook-timestamp': date,
      'webhook-signature': `v1,${hmac(key, `${id}.${date}.`, body).toString('base64')}`,
    };
  },
  stripe: (body, { secret, key = Buffer.from(secret), at, date = `${at}` }) => ({
    'stripe-signature': `t=${date},v1=${hmac(key, `${date}.`, body).toString('hex')}`,
  }),
  vipps(body, { secret, key = Buffer.from(secret), url, method = 'POST', ...signing }) {
    const { at, date = new Date(at * 1000).toUTCString(), lineBreak = '\n' } = signing;
    const { host: ownHost, pathname, search } = new URL(url);
    const { host = ownHost, target = pathname + search } = signing;
    const hash = createHash('sha256').update(body).digest('base64');
    const signature = hmac(key, [method, target, `${date};${host};${hash}`].join(lineBreak));
    return {
      'x-ms-date': date,
      'x-ms-content-sha256': hash,
      authorization: `HMAC-SHA256 SignedHeaders=x-ms-date;host;x-ms-content-sha256&Signature=${signature.toString('base64')}`,
    };
  },
  criipto: (body, { secret, key = bytesOf(secret) }) => ({
    'x-criipto-signature': hmac(key, body).toString('base64'),
  }),
  'github-style': (body, { secret, key = Buffer.from(secret), header = 'x-hub-signature-256' }) => ({
    [header]: `sha256=${hmac(key, body).toString('hex')}`,
  }),
};

function bytesOf(encoded: string): Buffer {
  return Buffer.from(encoded, 'base64');
}
