import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { does } from '../kit/doc.ts';
import type { Block, Doc } from '../kit/doc.ts';
import { eventsPath, webhooksPath, withParameters } from '../kit/links.ts';
import { pager } from '../kit/pager.ts';
import type { WebhookPage, WebhookSetAside } from './fields.ts';
import { providerList, reasonList, receiptList, refusalList, setAsideList } from './lists.ts';
import { webhookFilters, webhookQuery } from './query.ts';
import type { PagedList } from './query.ts';
import { reconciliationList } from './reconciliation-list.ts';

/** Says what providers sent: each provider, then receipts, refusals, and what was set aside. A search finds receipts alone. */
export function webhooksDoc(view: WebhookPage): Doc {
  const { filters, generatedAt: at } = view;
  const isSearch = filters.id !== null;
  return {
    title: 'Webhooks',
    lead: 'What providers sent. A received webhook is an event; a refused one was not stored. No bodies are shown.',
    section: 'webhooks',
    at,
    filters: { path: webhooksPath(), by: webhookFilters, values: filters },
    blocks: [
      { id: 'providers', title: 'Providers', list: providerList(view) },
      !isSearch && {
        id: 'reconciliation',
        title: 'Webhooks that never came',
        hint: 'providers are asked every five minutes for events whose webhook was lost',
        list: reconciliationList(view),
      },
      filters.provider !== 'unknown' && receipts(view),
      ...(isSearch ? [] : others(view)),
    ],
  };
}

function receipts(view: WebhookPage): Block {
  const { id, provider } = view.filters;
  const of = provider ?? 'any provider';
  return {
    id: 'received',
    title: id === null ? 'Received' : 'Found',
    hint:
      id === null
        ? 'newest first, as far back as events are kept; search by id for older ones'
        : 'receipts are kept forever',
    list: receiptList(view),
    empty: {
      title:
        id === null
          ? `No webhook of ${of} has been received, or its event is no longer kept`
          : `No webhook with the id ${id} was received from ${of}. If the provider did send it, it was refused: see Refused, which a search leaves out`,
    },
    below: (context) => pagesOf('received', 'receipts', view.receipts.nextCursor, context.url),
  };
}

function others(view: WebhookPage): readonly Block[] {
  return [
    {
      id: 'refused',
      title: 'Refused',
      hint: 'the last 30 days; today begins at midnight UTC',
      list: reasonList(view),
      empty: { title: 'No webhook was refused in the last 30 days' },
    },
    {
      id: 'refusals',
      title: 'Newest refusals',
      hint: 'one by one: of each day, provider and reason at most 20',
      list: refusalList(view),
      below: ({ url }) => pagesOf('refusals', 'refusals', view.refusals.nextCursor, url),
    },
    {
      id: 'set-aside',
      title: 'Set aside',
      hint: 'webhooks that wait for their payment intent, or for what makes them plausible',
      list: setAsideList(view),
      acts: ({ eventId, reason }: WebhookSetAside) => [
        reason === 'not_plausible' && does('accept-webhook', { eventId }, { of: eventId }),
      ],
      empty: { title: 'No webhook waits' },
      below: ({ url }) =>
        html`<p class="muted small note">
            After 72 hours a webhook without an intent becomes the event
            <a href="${eventsPath({ topic: 'payment.webhook.unclaimed' })}">payment.webhook.unclaimed</a>.
          </p>
          ${pagesOf('set-aside', 'setAside', view.setAside.nextCursor, url)}`,
    },
  ];
}

/** The links to a list's other pages. Each list is read by a cursor of its own, while the others stay at their beginning. */
function pagesOf(anchor: string, list: PagedList, nextCursor: string | null, url: URL): Html | null {
  const { cursor } = webhookQuery.shape;
  const isOlder = cursor.safeParse(url.searchParams.get('cursor') ?? undefined).data?.list === list;
  if (nextCursor === null && !isOlder) return null;
  const pathOf = (place: string | null) => `${withParameters(url, { cursor: place })}#${anchor}`;
  return pager(
    null,
    [
      { words: 'Newest', path: isOlder ? pathOf(null) : null, relation: 'first' },
      { words: 'Older', path: nextCursor === null ? null : pathOf(nextCursor), relation: 'next' },
    ],
    anchor.replace('-', ' '),
  );
}
