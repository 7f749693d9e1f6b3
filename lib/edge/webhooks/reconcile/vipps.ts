import * as z from 'zod';

import type { ReconciliationSettings } from '../../../platform/config.ts';
import { vippsEvent } from '../../../platform/schemes/vipps.ts';
import { MINUTE } from '../../../platform/time.ts';
import { VERSION } from '../../../platform/version.ts';
import { askProvider, ProviderFailed, unreadable } from './provider-api.ts';
import type { FoundEvent } from './take-in.ts';

export type VippsSettings = Extract<ReconciliationSettings, { api: 'vipps' }>;

/** A payment's log. */
export interface PaymentLog {
  /** Entries that change a payment, oldest first, as their webhooks report them. */
  readonly events: readonly (FoundEvent & { readonly at: number; readonly part: string })[];
  /** Whether nothing more can happen to the payment. */
  readonly isOver: boolean;
}

/** A token is valid for an hour in the test environment, and for a day in production. */
const TOKEN_KEPT_MS = 30 * MINUTE;

/** By address and client: a process has one or two. */
const tokens = new Map<string, { readonly token: string; readonly until: number }>();

function clientOf({ url, clientId }: VippsSettings): string {
  return `${url} ${clientId}`;
}

/**
 * Gets an access token, or the one that was got before.
 *
 * @throws ProviderFailed
 * @see https://developer.vippsmobilepay.com/docs/APIs/access-token-api/
 */
export async function accessToken(settings: VippsSettings, signal: AbortSignal): Promise<string> {
  const known = tokens.get(clientOf(settings));
  if (known && Date.now() < known.until) return known.token;
  const headers = {
    ...ownHeaders(settings),
    client_id: settings.clientId,
    client_secret: settings.clientSecret,
  };
  const url = `${settings.url}/accesstoken/get`;
  const answer = tokenAnswer.safeParse(await askProvider(url, { method: 'POST', headers, signal }));
  if (!answer.success) throw unreadable(answer.error);
  const token = answer.data.access_token;
  tokens.set(clientOf(settings), { token, until: Date.now() + TOKEN_KEPT_MS });
  return token;
}

const tokenAnswer = z.object({ access_token: z.string().regex(/^[!-~]+$/) });

/**
 * Asks for the log of one payment.
 *
 * @param names only the entries with these names: those of others were never registered for, or change nothing.
 * @returns null for a payment that Vipps does not know.
 * @throws ProviderFailed
 * @see https://developer.vippsmobilepay.com/docs/APIs/epayment-api/api-guide/operations/get_event_log
 */
export async function paymentLog(
  settings: VippsSettings,
  { token, reference, names }: { token: string; reference: string; names: readonly string[] },
  signal: AbortSignal,
): Promise<PaymentLog | null> {
  const url = `${settings.url}/epayment/v1/payments/${encodeURIComponent(reference)}/events`;
  const headers = { ...ownHeaders(settings), authorization: `Bearer ${token}` };
  const answer = await askProvider(url, { headers, signal }).catch((error: unknown) => {
    // 400 is the answer to a reference that Vipps never gives.
    if (error instanceof ProviderFailed && (error.status === 404 || error.status === 400)) return null;
    // The token may have been revoked: the next step gets another one.
    if (error instanceof ProviderFailed && error.status === 401) tokens.delete(clientOf(settings));
    throw error;
  });
  if (answer === null) return null;
  const log = entries.safeParse(answer);
  if (!log.success) throw unreadable(log.error);
  if (log.data.some((entry) => entry.reference !== reference)) throw unreadable();
  return {
    events: log.data
      .filter(({ name, success }) => names.includes(name) && success !== false)
      .map((entry) => {
        // The webhook says of which sales unit it is, the log does not.
        const body = { msn: settings.merchantSerialNumber, ...entry };
        return {
          ...vippsEvent({ fields: body }),
          body,
          at: Date.parse(entry.timestamp),
          part: `${entry.name} ${entry.pspReference}`,
        };
      }),
    isOver: isOver(log.data),
  };
}

const entries = z.array(
  z.looseObject({
    reference: z.string(),
    pspReference: z.string(),
    name: z.string(),
    amount: z.looseObject({ value: z.int().nonnegative() }).nullish(),
    timestamp: z.string(),
    success: z.boolean().nullish(),
  }),
);

const ENDINGS = new Set(['ABORTED', 'EXPIRED', 'TERMINATED', 'FAILED']);

/** Whether the payment ended without money, or all that was reserved is cancelled, or captured and refunded. */
function isOver(log: z.output<typeof entries>): boolean {
  const done = log.filter(({ success }) => success !== false);
  const sumOf = (name: string) =>
    done.filter((entry) => entry.name === name).reduce((sum, { amount }) => sum + (amount?.value ?? 0), 0);
  const [reserved, captured, cancelled, refunded] = ['AUTHORIZED', 'CAPTURED', 'CANCELLED', 'REFUNDED'].map(
    sumOf,
  );
  if (captured === 0 && done.some(({ name }) => ENDINGS.has(name))) return true;
  return captured! + cancelled! > 0 && captured! + cancelled! >= reserved! && refunded! >= captured!;
}

function ownHeaders(settings: VippsSettings): Record<string, string> {
  return {
    'content-type': 'application/json',
    'ocp-apim-subscription-key': settings.subscriptionKey,
    'merchant-serial-number': settings.merchantSerialNumber,
    'vipps-system-name': 'postbud',
    'vipps-system-version': VERSION,
  };
}
