import { createHash } from 'node:crypto';

/** What tells one way of failing from another. */
export interface ErrorGroup {
  readonly key: string;
  readonly kind: string;
  readonly message: string;
}

/** Longer messages are told apart by their beginnings. */
const MESSAGE_LIMIT = 300;

/**
 * Names the group of errors that a dead letter belongs to: those of its subscription that have the same kind, and the
 * same message once numbers, ids and addresses are taken out.
 *
 * @param message as it was thrown, its personal data masked.
 */
export function errorGroupOf(topic: string, subscriber: string, kind: string, message: string): ErrorGroup {
  const common = generalised(message);
  const key = createHash('sha256')
    .update(JSON.stringify([topic, subscriber, kind, common]))
    .digest('hex');
  return { key: key.slice(0, 16), kind, message: common };
}

/** HTTP statuses stay: they say what went wrong. */
function generalised(message: string): string {
  return message
    .replaceAll(/\b(?=[\w-]*\d)(?:[\w-]{6,}|[a-z]+[_-][\w-]*)/gi, '…')
    .replaceAll(/\d+/g, (number) => (/^[45]\d\d$/.test(number) ? number : '…'))
    .replaceAll(/…(?:[.,:…-]*…)+/g, '…')
    .replaceAll(/\s+/g, ' ')
    .slice(0, MESSAGE_LIMIT)
    .toWellFormed();
}
