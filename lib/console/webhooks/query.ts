import * as z from 'zod';

import { providerOf, providers } from '../../platform/config.ts';
import { cursorOf } from '../kit/cursor.ts';
import { byText, shapesIn } from '../kit/filters.ts';
import type { Filters } from '../kit/filters.ts';
import { isInstant } from '../kit/replay-request.ts';
import { select } from '../kit/select.ts';
import * as shape from '../kit/shapes.ts';

/** The senders whose refusals are counted, without further accounts: `unknown` called an address of no endpoint. */
const senders = [...providers, 'unknown'] as const;

/** Whether webhooks can be listed by this name. */
function isSender(name: string): boolean {
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

export const webhookFilters = {
  provider: {
    shape: z
      .string()
      .refine(isSender, `expected one of ${senders.join(', ')}, or a further account such as cardpayments_2`)
      .meta({
        description:
          'Only this endpoint: a provider, or a further account such as `cardpayments_2`; `unknown` for requests to an address of no endpoint.',
      })
      .optional(),
    option: { value: '<name>', help: 'only this provider; unknown: requests to no provider’s address' },
    field: (name, value) =>
      select('Provider', name, value, [
        ['', 'All providers'],
        ...senders.map((one) => [one, senderName(one)] as const),
      ]),
  },
  id: byText(
    'The provider’s id of a webhook',
    { value: '<id>', help: 'find one webhook by the id that its provider gave it, however old' },
    'evt_1QxK2m',
  ),
} satisfies Filters;

/** `unknown` is a word in the address, not a provider's name. */
export function senderName(provider: string): string {
  return provider === 'unknown' ? 'Unknown address' : provider;
}

/** The query of the list of webhooks. */
export const webhookQuery = z.object({
  ...shapesIn(webhookFilters),
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
