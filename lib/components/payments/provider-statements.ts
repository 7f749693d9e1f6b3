import type { Statements } from './body-fields.ts';
import { CARD_TYPES, cardStatements } from './card-statements.ts';
import { WALLET_TYPES, walletStatements } from './wallet-statements.ts';

export type PaymentProvider = 'cardpayments' | 'walletpayments';

/** The types of webhooks that state anything; all others mean nothing here. */
export const STATING_TYPES: Readonly<Record<PaymentProvider, readonly string[]>> = {
  cardpayments: CARD_TYPES,
  walletpayments: WALLET_TYPES,
};

/**
 * Reads what a provider's webhook states of an intent.
 *
 * @returns null for a webhook that states nothing: an unused type, a charge without an intent, an unsuccessful capture.
 * @throws MalformedWebhook for a body that does not match its type.
 */
export function providerStatements(
  provider: PaymentProvider,
  body: Readonly<Record<string, unknown>>,
): Statements | null {
  return provider === 'cardpayments' ? cardStatements(body) : walletStatements(body);
}
