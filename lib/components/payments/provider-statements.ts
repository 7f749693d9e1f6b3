import { providerOf } from '../../platform/config.ts';
import type { Statements } from './body-fields.ts';
import { CARD_TYPES, cardStatements } from './card-statements.ts';
import { WALLET_TYPES, walletStatements } from './wallet-statements.ts';

export type PaymentProvider = 'cardpayments' | 'walletpayments';

/** The types of webhooks that state anything; all others mean nothing here. */
export const STATING_TYPES: Readonly<Record<PaymentProvider, readonly string[]>> = {
  cardpayments: CARD_TYPES,
  walletpayments: WALLET_TYPES,
};

/** Whether webhooks of a type state anything, or belong to another component than payments. */
export function isStating(endpoint: string, type: string | null): boolean {
  const provider = providerOf(endpoint);
  if (provider === 'identityprovider') return type === 'login.succeeded';
  return provider !== undefined && type !== null && STATING_TYPES[provider].includes(type);
}

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
