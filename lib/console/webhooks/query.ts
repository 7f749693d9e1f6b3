import * as z from 'zod';

import { isInstant } from '../kit/replay-request.ts';
import { providerOf, providers } from '../../platform/config.ts';
import { cursorOf } from '../kit/cursor.ts';
import * as shape from '../kit/shapes.ts';

/** The senders whose refusals are counted, without further accounts: `unknown` called an address of no endpoint. */
export const senders = [...providers, 'unknown'] as const;

/** Whether webhooks can be listed by this name. */
export function isSender(name: string): boolean {
  return name === 'unknown' || providerOf(name) !== undefined;
}

const digits = z.string().regex(/^\d{1,18}$/);
const instant = z.string().refine(isInstant);

/** The last row of a page. The other two lists stay at their beginning. */
const cursorShape = z.union([
  z.object({ list: z.literal('receipts'), at: instant, seq: digits }),
  z.object({ list: z.literal('refusals'), at: instant, provider: z.string(), reason: z.string() }),
  z.object({ list: z.literal('setAside'), at: instant, eventId: z.uuid() }),
]);

/** One of the lists, each of which is paged. */
export type PagedList = z.output<typeof cursorShape>['list'];

/** The query of the list of webhooks. */
export const webhookQuery = z.object({
  provider: z
    .string()
    .refine(isSender, `expected one of ${senders.join(', ')}, or a further account such as cardpayments_2`)
    .meta({
      description:
        'Only this endpoint: a provider, or a further account such as `cardpayments_2`; `unknown` for requests to an address of no endpoint.',
    })
    .optional(),
  id: z
    .string()
    .trim()
    .max(255)
    .meta({ description: 'Only the receipt of this id, which the provider gave the webhook. However old.' })
    .optional(),
  limit: shape.pageLimit,
  cursor: cursorOf(cursorShape).optional(),
});

export type WebhookQuery = z.output<typeof webhookQuery>;

/** The fields of the query's cursor, if it pages this list. */
export function placeIn(list: PagedList, { cursor }: Pick<WebhookQuery, 'cursor'>): Partial<Fields> {
  return cursor?.list === list ? cursor : {};
}

type Fields = Readonly<Record<'at' | 'seq' | 'provider' | 'reason' | 'eventId', string>>;

/** A row of a list, and the fields of the cursor behind it; null where all rows are on one page. */
export interface Placed<Item> {
  readonly item: Item;
  readonly place: Partial<Fields> | null;
}
