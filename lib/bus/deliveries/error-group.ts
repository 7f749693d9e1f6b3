import { createHash } from 'node:crypto';

/** A way in which deliveries of a subscription fail: errors with the same kind and, numbers aside, the same message. */
export interface ErrorGroup {
  readonly key: string;
  readonly kind: string;
  readonly message: string;
  /** The group that takes a dead letter where its subscription has too many groups already. */
  readonly rest?: ErrorGroup;
}

/** Messages are compared by this many characters. */
const MESSAGE_LIMIT = 300;

/**
 * Gives the error group of a dead letter: the errors of its subscription with the same kind, and with the same message
 * once numbers, ids and addresses are taken out.
 *
 * @param message as thrown, with its personal data masked.
 */
export function errorGroupOf(topic: string, subscriber: string, kind: string, message: string): ErrorGroup {
  return {
    ...groupOf(topic, subscriber, kind, generalise(message)),
    rest: restGroupOf(topic, subscriber, kind),
  };
}

/** Gives the group of the errors of a kind that a subscription has too many groups for. */
export function restGroupOf(topic: string, subscriber: string, kind: string): ErrorGroup {
  return groupOf(topic, subscriber, kind, REST);
}

/** The message of such a group. */
export const REST = 'other messages: there are too many to tell them apart';

/** Gives the error group of another subscriber that fails in the same way. @param message that of a group. */
export function groupOf(topic: string, subscriber: string, kind: string, message: string): ErrorGroup {
  const key = createHash('sha256')
    .update(JSON.stringify([topic, subscriber, kind, message]))
    .digest('hex');
  return { key: key.slice(0, 16), kind, message };
}

/** Takes out what differs between deliveries. HTTP statuses stay, because they say what went wrong. */
function generalise(message: string): string {
  return message
    .replaceAll(/\b(?=[\w-]*\d)(?:[\w-]{6,}|[a-z]+[_-][\w-]*)/gi, '…')
    .replaceAll(/\d+/g, (number) => (/^[45]\d\d$/.test(number) ? number : '…'))
    .replaceAll(/…(?:[.,:…-]*…)+/g, '…')
    .replaceAll(/\s+/g, ' ')
    .slice(0, MESSAGE_LIMIT)
    .toWellFormed();
}
