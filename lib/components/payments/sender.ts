import type { PaymentSender } from '../../platform/config.ts';
import type { PaymentProvider } from './provider-statements.ts';

/**
 * Says why a webhook is not of the account or mode whose payments are taken.
 *
 * @returns null for one that is, or that names neither.
 */
export function unexpectedIn(
  provider: PaymentProvider,
  body: Readonly<Record<string, unknown>>,
  sender: PaymentSender | undefined,
): string | null {
  if (!sender) return null;
  const { accounts, isLive } = sender;
  const { livemode } = body;
  if (isLive !== null && typeof livemode === 'boolean' && livemode !== isLive)
    return isLive
      ? 'the webhook is of test mode, but this endpoint takes live payments'
      : 'the webhook is of live mode, but the key of this endpoint is one of test mode';
  const account = provider === 'cardpayments' ? body['account'] : body['msn'];
  if (accounts.length === 0 || (typeof account !== 'string' && typeof account !== 'number')) return null;
  if (accounts.includes(String(account))) return null;
  const what = provider === 'cardpayments' ? 'account' : 'sales unit';
  return `the webhook is of another ${what} than the configured ${accounts.join(' or ')}`;
}
