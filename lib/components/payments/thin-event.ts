import * as z from 'zod';

import { parseBody, providersId, word } from './body-fields.ts';
import { CARD_TYPES } from './card-statements.ts';

/** An event of Stripe's that names an object and holds no amounts. */
export type ThinEvent = z.output<typeof thinEvent>;

/**
 * Reads a thin event whose type means something here.
 *
 * @returns null for any other event.
 * @throws MalformedWebhook where it names no object that can be read.
 * @see https://docs.stripe.com/webhooks#thin-events
 */
export function readThinEvent(body: Readonly<Record<string, unknown>>): ThinEvent | null {
  const { type } = body;
  const isThin = typeof type === 'string' && type.startsWith(PREFIX);
  return isThin && CARD_TYPES.includes(type.slice(PREFIX.length)) ? parseBody(thinEvent, body) : null;
}

const PREFIX = 'v1.';

const thinEvent = z
  .object({
    type: z.string(),
    /** The account that the object belongs to, where it is not the key's own. */
    context: z
      .string()
      .regex(/^acct_\w+$/)
      .nullish()
      .catch(null),
    related_object: z.object({
      id: providersId,
      type: word,
      // It is asked for with a key: at the configured host, and nothing but one object.
      url: z
        .string()
        .max(255)
        .regex(/^\/v1\/\w+(?:\/[\w-]+)+$/),
    }),
  })
  .transform(({ type, context, related_object: { id, type: object, url: path } }) => ({
    snapshotType: type.slice(PREFIX.length),
    account: context ?? null,
    id,
    object,
    path,
  }));
