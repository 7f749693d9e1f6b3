import * as z from 'zod';

import type { ThinEvent } from '../../../components/payments/thin-event.ts';
import type { ReconciliationSettings } from '../../../platform/config.ts';
import { stripeEvent } from '../../../platform/schemes/stripe.ts';
import { DAY, HOUR, SECOND } from '../../../platform/time.ts';
import type { Walk } from './progress.ts';
import { askProvider, ProviderFailed, unreadable } from './provider-api.ts';
import type { FoundEvent } from './take-in.ts';

export type StripeSettings = Extract<ReconciliationSettings, { api: 'stripe' }>;

/** One page of Stripe's events. */
export interface StripePage {
  /** Oldest first. */
  readonly events: readonly FoundEvent[];
  /** Where the next page begins; null: this was the last. */
  readonly next: string | null;
}

/** Stripe keeps its events this long. */
const KEPT_MS = 30 * DAY;

/**
 * The time that walks have in common, so that none misses an event that was listed late, or by a clock that is not ours.
 * What is found again is known by its receipt.
 */
const OVERLAP_MS = 1 * HOUR;

/** Plans a walk over the events since the last one. The first goes back as far as Stripe does. */
export function planWalk(checkedUntil: number | null, until: number): Walk {
  const from = checkedUntil === null ? until - KEPT_MS : Math.min(checkedUntil, until) - OVERLAP_MS;
  return { from, until, cursor: null };
}

/** The version of the SDK that tests compare our signatures with. Events themselves do not depend on it. */
const API_VERSION = '2026-10-28.endive';

/** The most that Stripe lists at once. */
const PAGE = 100;

/** After a failure: the page may have been too long for its deadline. */
const SHORT_PAGE = 10;

/**
 * Asks for the next page of events that Stripe could not deliver to one of the account's endpoints, or has not yet:
 * also those that were answered with 2xx by us, but too late or over a lost connection.
 *
 * @param types only these: the account's other endpoints may get others, which are none of ours.
 * @throws ProviderFailed
 * @see https://docs.stripe.com/webhooks/process-undelivered-events
 */
export async function undeliveredEvents(
  { url, key }: StripeSettings,
  walk: Walk,
  { types, isShort }: { readonly types: readonly string[]; readonly isShort: boolean },
  signal: AbortSignal,
): Promise<StripePage> {
  const query = new URLSearchParams([
    ['delivery_success', 'false'],
    ['limit', String(isShort ? SHORT_PAGE : PAGE)],
    ['created[gte]', String(Math.floor(walk.from / SECOND))],
    ['created[lt]', String(Math.ceil(walk.until / SECOND))],
  ]);
  for (const type of types) query.append('types[]', type);
  if (walk.cursor !== null) query.append('starting_after', walk.cursor);
  const headers = { authorization: `Bearer ${key}`, 'stripe-version': API_VERSION };
  const answer = page.safeParse(
    await askProvider(`${url}/v1/events?${query.toString()}`, { headers, signal }),
  );
  if (!answer.success) throw unreadable(answer.error);
  const { data, has_more: isMore } = answer.data;
  const next = isMore ? (data.at(-1)?.id ?? null) : null;
  // Stripe would be asked for the same page again and again.
  if (isMore && (next === null || next === walk.cursor)) throw unreadable();
  return {
    events: data
      // Newest first, as Stripe lists them.
      .toReversed()
      .map((body) => ({ ...stripeEvent({ fields: body }), body })),
    next,
  };
}

const page = z.object({
  object: z.literal('list'),
  data: z.array(z.looseObject({ object: z.literal('event'), id: z.string().min(1), type: z.string() })),
  has_more: z.boolean(),
});

/**
 * Reads the object that a thin event names.
 *
 * @throws ProviderFailed, also where the answer is another object.
 */
export async function readNamed(
  { url, key }: StripeSettings,
  { path, id, object, account }: ThinEvent,
  signal: AbortSignal,
): Promise<{ readonly apiVersion: string; readonly object: Readonly<Record<string, unknown>> }> {
  const headers = {
    authorization: `Bearer ${key}`,
    'stripe-version': API_VERSION,
    ...(account !== null && { 'stripe-account': account }),
  };
  const answer = z
    .looseObject({ id: z.literal(id), object: z.literal(object) })
    .safeParse(await askProvider(`${url}${path}`, { headers, signal }));
  if (!answer.success) throw new ProviderFailed('answered another object', { cause: answer.error });
  return { apiVersion: API_VERSION, object: answer.data };
}
