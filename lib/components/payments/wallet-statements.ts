import * as z from 'zod';

import type { PaymentStatement } from '../../../drizzle/schema.ts';
import {
  amountMinor,
  currencyCode,
  MalformedWebhook,
  parseBody,
  providersId,
  providersTime,
} from './body-fields.ts';
import type { Statements } from './body-fields.ts';

/** https://developer.vippsmobilepay.com/docs/APIs/epayment-api/features/webhooks/ */
const walletBody = z.object({
  name: z.enum([
    'AUTHORIZED',
    'CAPTURED',
    'CANCELLED',
    'REFUNDED',
    'FAILED',
    'ABORTED',
    'EXPIRED',
    'TERMINATED',
  ]),
  reference: providersId,
  pspReference: providersId.optional(),
  amount: z.object({ value: amountMinor, currency: currencyCode }).optional(),
  timestamp: providersTime,
  success: z.boolean().optional(),
});

export const WALLET_TYPES: readonly string[] = walletBody.shape.name.options;

/**
 * Reads what a webhook of Vipps MobilePay's ePayment states. An amount is that of a single capture or refund, each with a
 * `pspReference` of its own.
 *
 * @see https://developer.vippsmobilepay.com/docs/APIs/epayment-api/api-guide/operations/get_event_log
 */
export function walletStatements(body: Readonly<Record<string, unknown>>): Statements | null {
  if (!WALLET_TYPES.some((name) => name === body['name'])) return null;
  const parsed = parseBody(walletBody, body);
  const statement = statementOf(parsed);
  return statement && { intentId: parsed.reference, statements: [statement] };
}

function statementOf(body: z.output<typeof walletBody>): PaymentStatement | null {
  const { name, timestamp: at, success } = body;
  if (name === 'FAILED') return { kind: 'failed', at, reason: 'failed' };
  if (name === 'ABORTED' || name === 'EXPIRED' || name === 'TERMINATED')
    return { kind: 'ended', at, reason: name.toLowerCase(), wasReserved: false };
  // An unsuccessful operation changes nothing.
  if (success === false) return null;
  const { value, currency } = required(body, 'amount');
  if (name === 'AUTHORIZED') return { kind: 'reserved', at, amountMinor: value, currency };
  if (name === 'CANCELLED')
    return { kind: 'ended', at, reason: 'cancelled', wasReserved: true, amountMinor: value, currency };
  // Without its reference, a second capture would count as the first one, and its amount would be lost.
  const part = required(body, 'pspReference');
  const kind = name === 'CAPTURED' ? 'captured' : 'refunded';
  return { kind, at, part, isTotal: false, amountMinor: value, currency };
}

function required<Name extends 'amount' | 'pspReference'>(
  body: z.output<typeof walletBody>,
  field: Name,
): NonNullable<z.output<typeof walletBody>[Name]> {
  const value = body[field];
  if (value !== undefined) return value;
  throw new MalformedWebhook(`a ${body.name} without ${field === 'amount' ? 'an amount' : 'a pspReference'}`);
}
