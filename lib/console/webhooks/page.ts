import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { actionForm, hiddenField, mayReplay } from '../kit/actions.ts';
import { listTable } from '../kit/document.ts';
import type { List } from '../kit/document.ts';
import { heading, layout, liveness } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { eventsPath, webhooksPath, withParameters } from '../kit/links.ts';
import { pager } from '../kit/pager.ts';
import { card, emptyLine, section } from '../kit/sections.ts';
import { ACTIONS } from '../kit/table.ts';
import type { WebhookPage, WebhookSetAside } from './fields.ts';
import { providerList, reasonList, receiptList, refusalList, senderName, setAsideList } from './lists.ts';
import { senders, webhookQuery } from './query.ts';
import type { PagedList } from './query.ts';
import { reconciliationList } from './reconciliation-list.ts';

const REFRESH_SECONDS = 15;

/** Draws what providers sent: each provider, then receipts, refusals, and what was set aside. */
export function webhooksPage(view: WebhookPage, context: PageContext): Html {
  const { id } = view.filters;
  const content = html`${heading({
    title: 'Webhooks',
    lead: 'What providers sent. A received webhook is an event; a refused one was not stored. No bodies are shown.',
    live: liveness(view.generatedAt, REFRESH_SECONDS, context.url),
  })}
  ${filterForm(view)} ${providersSection(view)} ${id === null && reconciliationSection(view)}
  ${receiptsSection(view, context)}
  ${id === null && [refusalsSection(view), newestRefusalsSection(view, context), setAsideSection(view, context)]}`;
  return layout(
    { title: 'Webhooks', section: 'webhooks', refreshSeconds: REFRESH_SECONDS, content },
    context,
  );
}

const SELECTED = html`selected`;

function filterForm(view: WebhookPage): Html {
  const { filters } = view;
  return html`<form class="filters bar" method="get" action="${webhooksPath()}">
    <label class="f">
      Provider
      <select name="provider">
        <option value="">All providers</option>
        ${sendersIn(view).map(
          (name) =>
            html`<option value="${name}" ${name === filters.provider && SELECTED}>
              ${senderName(name)}
            </option>`,
        )}
      </select>
    </label>
    <label class="f grow">
      The provider’s id of a webhook
      <input type="search" name="id" value="${filters.id}" placeholder="for example: evt_1QxK2m" />
    </label>
    ${filters.limit !== 50 && hiddenField('limit', String(filters.limit))}
    <button class="btn">Apply</button>
    ${
      (filters.provider !== null || filters.id !== null) &&
      html`<a class="btn quiet" href="${webhooksPath()}">Clear</a>`
    }
  </form>`;
}

/** With the further accounts that the page shows. */
function sendersIn({ filters, providers, refusals }: WebhookPage): readonly string[] {
  const shown = [...providers, ...refusals.byReason].map(({ provider }) => provider);
  return [...new Set([...senders, ...shown, ...(filters.provider === null ? [] : [filters.provider])])];
}

function providersSection(view: WebhookPage): Html | null {
  if (view.providers.length === 0) return null;
  return section({
    id: 'providers',
    title: 'Providers',
    content: card(listTable(providerList(view))),
  });
}

function reconciliationSection(view: WebhookPage): Html | null {
  const list = reconciliationList(view);
  if (list.rows.length === 0) return null;
  return section({
    id: 'reconciliation',
    title: 'Webhooks that never came',
    hint: 'providers are asked every five minutes for events whose webhook was lost',
    content: card(listTable(list)),
  });
}

function receiptsSection(view: WebhookPage, { url }: PageContext): Html | null {
  const { receipts, filters } = view;
  if (filters.provider === 'unknown') return null;
  const isOlder = isPaged(url, 'receipts');
  return section({
    id: 'received',
    title: filters.id === null ? 'Received' : 'Found',
    hint:
      filters.id === null
        ? 'newest first, as far back as events are kept; search by id for older ones'
        : 'receipts are kept forever',
    content: html`${listCard(receiptList(view), nothingReceived(filters, isOlder))}
    ${listPager('received', receipts.nextCursor, isOlder, url)}`,
  });
}

function nothingReceived({ id, provider }: WebhookPage['filters'], isOlder: boolean): string {
  if (isOlder) return 'No older webhooks.';
  const of = provider === null ? 'any provider' : provider;
  return id === null
    ? `No webhook of ${of} has been received, or its event is no longer kept.`
    : `No webhook with the id ${id} was received from ${of}. If the provider did send it, it was refused: clear the search to see Refused.`;
}

function refusalsSection(view: WebhookPage): Html {
  const list = reasonList(view);
  return section({
    id: 'refused',
    title: 'Refused',
    ...(list.rows.length > 0 && { hint: 'the last 30 days; today begins at midnight UTC' }),
    content: listCard(list, 'No webhook was refused in the last 30 days.'),
  });
}

function newestRefusalsSection(view: WebhookPage, { url }: PageContext): Html | null {
  const { items, nextCursor } = view.refusals;
  const isOlder = isPaged(url, 'refusals');
  if (items.length === 0 && !isOlder) return null;
  return section({
    id: 'refusals',
    title: 'Newest refusals',
    hint: 'one by one: of each day, provider and reason at most 20',
    content: html`${listCard(refusalList(view), 'No older refusals.')}
    ${listPager('refusals', nextCursor, isOlder, url)}`,
  });
}

function setAsideSection(view: WebhookPage, context: PageContext): Html {
  const { url } = context;
  const isOlder = isPaged(url, 'setAside');
  return section({
    id: 'set-aside',
    title: 'Set aside',
    hint: 'webhooks that wait for their payment intent, or for what makes them plausible',
    content: html`${listCard(
        withAcceptance(setAsideList(view), context),
        isOlder ? 'No older ones.' : 'No webhook waits.',
      )}
      <p class="muted small note">
        After 72 hours a webhook without an intent becomes the event
        <a href="${eventsPath({ topic: 'payment.webhook.unclaimed' })}">payment.webhook.unclaimed</a>.
      </p>
      ${listPager('set-aside', view.setAside.nextCursor, isOlder, url)}`,
  });
}

/** Adds the button that accepts what is not plausible. */
function withAcceptance(list: List<WebhookSetAside>, context: PageContext): List<WebhookSetAside> {
  if (!mayReplay(context.operator)) return list;
  return {
    ...list,
    columns: [
      ...list.columns,
      {
        ...ACTIONS,
        only: 'console',
        cell: ({ eventId, reason }) =>
          reason === 'not_plausible'
            ? { html: actionForm('accept-webhook', { eventId }, { of: eventId }, context), text: '' }
            : '',
      },
    ],
  };
}

/** @param none says that the list is empty. */
function listCard<Row>(list: List<Row>, none: string): Html {
  return card(list.rows.length === 0 ? emptyLine(none) : listTable(list));
}

/** Whether the page's cursor is one of this list. */
function isPaged({ searchParams }: URL, list: PagedList): boolean {
  const { cursor } = webhookQuery.shape;
  return cursor.safeParse(searchParams.get('cursor') ?? undefined).data?.list === list;
}

function listPager(anchor: string, nextCursor: string | null, isOlder: boolean, url: URL): Html | null {
  if (nextCursor === null && !isOlder) return null;
  const pathOf = (cursor: string | null) => `${withParameters(url, { cursor })}#${anchor}`;
  return pager(
    null,
    [
      { words: 'Newest', path: isOlder ? pathOf(null) : null, relation: 'first' },
      { words: 'Older', path: nextCursor === null ? null : pathOf(nextCursor), relation: 'next' },
    ],
    anchor.replace('-', ' '),
  );
}
