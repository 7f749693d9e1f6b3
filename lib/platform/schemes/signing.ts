import { createHmac } from 'node:crypto';

/** A secret that signs by Standard Webhooks: the base64 of 24 to 64 random bytes. */
export const SIGNING_SECRET = /^whsec_[A-Za-z0-9+/]{32,88}={0,2}$/;

/** The key of a secret. */
export function signingKey(secret: string): Buffer {
  return Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
}

/**
 * Signs a body by Standard Webhooks.
 *
 * @param atMs when, in epoch milliseconds: a receiver refuses what was signed minutes ago.
 * @see https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 */
export function signedHeaders(key: Buffer, id: string, body: string, atMs = Date.now()) {
  const timestamp = String(Math.floor(atMs / 1000));
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64');
  return { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${signature}` };
}
