import * as z from 'zod';

import type { PaymentStatement } from '../../../drizzle/schema.ts';

/** What a webhook states of an intent. */
export interface Statements {
  readonly intentId: string;
  /** In the order in which they hold. */
  readonly statements: readonly PaymentStatement[];
}

/** The body of a webhook does not match its type. */
export class MalformedWebhook extends Error {
  readonly code = 'malformed_webhook';
}

/** @throws MalformedWebhook */
export function parseBody<Schema extends z.ZodType>(schema: Schema, body: unknown): z.output<Schema> {
  const parsed = schema.safeParse(body);
  if (!parsed.success)
    throw new MalformedWebhook(`the body does not match its type: ${z.prettifyError(parsed.error)}`);
  return parsed.data;
}

// The same rules as in the topics' schemas: a statement that no event can carry fails permanently here.
export const currencyCode = z
  .string()
  .regex(/^[A-Za-z]{3}$/)
  .toUpperCase();
export const amountMinor = z.int().nonnegative();
export const providersId = z.string().min(1).max(255);
export const word = z.string().min(1).max(255);

/** An instant in a provider's notation, in seconds since the epoch or ISO 8601. Null for any other: no money waits for it. */
export const providersTime = z
  .union([z.int().nonnegative(), z.iso.datetime({ offset: true })])
  .transform((time) => new Date(typeof time === 'number' ? time * 1000 : time).toISOString())
  .nullable()
  .catch(null);
