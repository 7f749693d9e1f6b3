import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { hiddenField } from '../kit/actions.ts';
import { CHECK_ICON, WARNING_ICON } from '../kit/icons.ts';
import { ago, timeAndAgo, until } from '../kit/instants.ts';
import { heading, layout, liveness } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { eventPath, eventsPath, webhooksPath, withParameters } from '../kit/links.ts';
import { pager } from '../kit/pager.ts';
import { card, emptyLine, section } from '../kit/sections.ts';
import { stateLabel } from '../kit/states.ts';
import { table } from '../kit/table.ts';
import { count, quantity } from '../kit/words.ts';
import type { WebhookPage, WebhookProvider, WebhookReceipt, WebhookSetAside } from './read.ts';
import { reconciliationSection } from './reconciliation-section.ts';

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

function filterForm({ filters }: WebhookPage): Html {
  const names = ['cardpayments', 'walletpayments', 'identityprovider', 'unknown'];
  return html`<form class="filters bar" method="get" action="${webhooksPath()}">
    <label class="f">
      Provider
      <select name="provider">
        <option value="">All providers</option>
        ${names.map(
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

/** `unknown` is a word in the address, not a provider's name. */
function senderName(provider: string): string {
  return provider === 'unknown' ? 'Unknown address' : provider;
}

function senderLabel(provider: string): Child {
  return provider === 'unknown' ? senderName(provider) : html`<span class="mono">${provider}</span>`;
}

function providersSection({ providers, generatedAt }: WebhookPage): Html | null {
  if (providers.length === 0) return null;
  return section({
    id: 'providers',
    title: 'Providers',
    content: card(
      table({
        name: 'Providers',
        columns: [
          { label: 'Provider', isRowHeader: true, look: 'mono', cell: ({ provider }) => provider },
          { label: 'Endpoint', cell: endpointWords },
          {
            label: 'Last received',
            look: 'nowrap',
            cell: ({ lastReceivedAt }) =>
              lastReceivedAt === null
                ? html`<span class="muted">none</span>`
                : timeAndAgo(lastReceivedAt, generatedAt),
          },
          {
            label: 'Refused today',
            tone: 'num',
            cell: ({ provider, refusedToday }) =>
              refusedToday === 0
                ? ZERO
                : html`<a href="${webhooksPath({ provider })}#refused">${count(refusedToday)}</a>`,
          },
          {
            label: 'Set aside',
            tone: 'num',
            cell: ({ setAside, isMoreSetAside }) =>
              setAside === 0 ? ZERO : `${isMoreSetAside ? 'over ' : ''}${count(setAside)}`,
          },
        ],
        rows: providers,
      }),
    ),
  });
}

const ZERO = html`<span class="muted">0</span>`;

function endpointWords({ provider, endpoint, scheme }: WebhookProvider): Html {
  const variable = `WEBHOOK_${provider.toUpperCase()}_SECRET`;
  if (endpoint === 'configured')
    return html`<span class="state ok-t">${CHECK_ICON}configured</span
      ><span class="s">signed by the scheme ${scheme}</span>`;
  const isUnset = endpoint === 'not_configured';
  return html`<span class="state fail-t">${WARNING_ICON}${isUnset ? 'not configured' : 'misconfigured'}</span
    ><span class="s">
      ${
        isUnset
          ? html`Every webhook is refused with 503: set <code>${variable}</code>.`
          : html`Every webhook is refused: correct <code>${variable}</code> or its <code>_SCHEME</code>.`
      }
    </span>`;
}

function receiptsSection({ receipts, filters, generatedAt }: WebhookPage, { url }: PageContext): Html | null {
  if (filters.provider === 'unknown') return null;
  const { items, nextCursor } = receipts;
  const isOlder = isPaged(url, 'receipts');
  return section({
    id: 'received',
    title: filters.id === null ? 'Received' : 'Found',
    hint:
      filters.id === null
        ? 'newest first, as far back as events are kept; search by id for older ones'
        : 'receipts are kept forever',
    content: html`${card(
      items.length === 0
        ? emptyLine(nothingReceived(filters, isOlder))
        : table({
            name: 'Received webhooks',
            caption: 'Received webhooks, newest first',
            columns: [
              { label: 'Received', look: 'nowrap', cell: (item) => receivedCell(item, generatedAt) },
              { label: 'Webhook', look: 'about', cell: webhookCell },
              { label: 'Provider', look: 'mono', cell: ({ provider }) => provider },
              {
                label: 'Event',
                cell: ({ state }) =>
                  state === null ? html`<span class="muted">no longer kept</span>` : stateLabel(state),
              },
              { label: 'Sent again', cell: (item) => repetitions(item, generatedAt) },
            ],
            rows: items,
          }),
    )}
    ${listPager('received', nextCursor, isOlder, url)}`,
  });
}

function nothingReceived({ id, provider }: WebhookPage['filters'], isOlder: boolean): string {
  if (isOlder) return 'No older webhooks.';
  const of = provider === null ? 'any provider' : provider;
  return id === null
    ? `No webhook of ${of} has been received, or its event is no longer kept.`
    : `No webhook with the id ${id} was received from ${of}. If the provider says that it sent it, look below Refused.`;
}

function receivedCell({ receivedAt, reconciledAt }: WebhookReceipt, now: string): Html {
  return html`${timeAndAgo(receivedAt, now)}${reconciledAt !== null && html`<span class="s">found by reconciliation</span>`}`;
}

function webhookCell({ eventId, eventType, providerEventId }: WebhookReceipt): Html {
  const type = eventType ?? 'no type';
  return html`${
      eventId === null
        ? html`<span class="t mono">${type}</span>`
        : html`<a class="t mono" href="${eventPath(eventId)}">${type}</a>`
    }<span class="s mono wrap">${providerEventId}</span>`;
}

function repetitions(
  { duplicates, mismatches, lastDuplicateAt, reconciledAt }: WebhookReceipt,
  now: string,
): Child {
  if (duplicates === 0)
    return html`<span class="muted">${reconciledAt === null ? 'no' : 'has not come'}</span>`;
  if (reconciledAt !== null && duplicates === 1)
    return html`came
    later${lastDuplicateAt !== null && html`<span class="s">${ago(lastDuplicateAt, now)}</span>`}`;
  const times = duplicates === 1 ? 'once' : `${count(duplicates)} times`;
  return html`${times}<span class="s"
      >${lastDuplicateAt !== null && `last ${ago(lastDuplicateAt, now)}`}</span
    >
    ${
      mismatches > 0 &&
      html`<span class="s fail-t"
        >${quantity(mismatches, 'time')} with another body, which was not emitted</span
      >`
    }`;
}

function refusalsSection({ refusals: { byReason }, filters, generatedAt }: WebhookPage): Html {
  const shown = byReason.filter(({ provider }) => filters.provider === null || provider === filters.provider);
  if (shown.length === 0)
    return section({
      id: 'refused',
      title: 'Refused',
      content: card(emptyLine('No webhook was refused in the last 30 days.')),
    });
  return section({
    id: 'refused',
    title: 'Refused',
    hint: 'the last 30 days; today begins at midnight UTC',
    content: card(
      table({
        name: 'Refusals by reason',
        caption: 'Refused webhooks by provider and reason, the latest first',
        columns: [
          { label: 'Provider', cell: ({ provider }) => senderLabel(provider) },
          {
            label: 'Reason',
            look: 'message',
            cell: ({ reason, meaning }) =>
              html`<span class="t mono">${reason}</span><span class="s">${meaning}</span>`,
          },
          { label: 'Today', tone: 'num', cell: ({ today }) => count(today) },
          { label: '30 days', tone: 'num', cell: ({ last30Days }) => count(last30Days) },
          { label: 'Last', look: 'nowrap', cell: ({ lastAt }) => timeAndAgo(lastAt, generatedAt) },
        ],
        rows: shown,
      }),
    ),
  });
}

function newestRefusalsSection({ refusals, generatedAt }: WebhookPage, { url }: PageContext): Html | null {
  const { items, nextCursor } = refusals;
  const isOlder = isPaged(url, 'refusals');
  if (items.length === 0 && !isOlder) return null;
  return section({
    id: 'refusals',
    title: 'Newest refusals',
    hint: 'one by one: of each day, provider and reason at most 20',
    content: html`${card(
      items.length === 0
        ? emptyLine('No older refusals.')
        : table({
            name: 'Newest refusals',
            caption: 'The newest refused webhooks, one by one',
            columns: [
              {
                label: 'Refused',
                look: 'nowrap',
                cell: ({ refusedAt }) => timeAndAgo(refusedAt, generatedAt),
              },
              { label: 'Provider', cell: ({ provider }) => senderLabel(provider) },
              { label: 'Reason', look: 'mono', cell: ({ reason }) => reason },
            ],
            rows: items,
          }),
    )}
    ${listPager('refusals', nextCursor, isOlder, url)}`,
  });
}

function setAsideSection({ setAside, generatedAt }: WebhookPage, { url }: PageContext): Html {
  const { items, nextCursor } = setAside;
  const isOlder = isPaged(url, 'setAside');
  return section({
    id: 'set-aside',
    title: 'Set aside',
    hint: 'webhooks about a payment intent that is not recorded yet',
    content: html`${card(
        items.length === 0
          ? emptyLine(isOlder ? 'No older ones.' : 'Every webhook found its payment intent.')
          : table({
              name: 'Webhooks set aside',
              caption: 'Webhooks set aside, newest first',
              columns: [
                {
                  label: 'Set aside',
                  look: 'nowrap',
                  cell: ({ setAsideAt }) => timeAndAgo(setAsideAt, generatedAt),
                },
                { label: 'Payment intent', look: 'about', cell: intentCell },
                { label: 'Says', cell: ({ outcome }) => outcome },
                { label: 'Provider', look: 'mono', cell: ({ provider }) => provider },
                {
                  label: 'Unclaimed',
                  look: 'nowrap',
                  cell: ({ unclaimedAt }) => until(unclaimedAt, generatedAt),
                },
              ],
              rows: items,
            }),
      )}
      <p class="muted small note">
        After 72 hours such a webhook becomes the event
        <a href="${eventsPath({ topic: 'payment.webhook.unclaimed' })}">payment.webhook.unclaimed</a>.
      </p>
      ${listPager('set-aside', nextCursor, isOlder, url)}`,
  });
}

function intentCell({ intentId, providerEventId, eventId }: WebhookSetAside): Html {
  return html`<a class="t mono" href="${eventPath(eventId)}">${intentId}</a
    ><span class="s mono wrap">${providerEventId}</span>`;
}

/** Whether the page's cursor is one of this list. */
function isPaged({ searchParams }: URL, list: 'receipts' | 'refusals' | 'setAside'): boolean {
  const cursor = searchParams.get('cursor');
  return cursor !== null && Buffer.from(cursor, 'base64url').toString().includes(`"list":"${list}"`);
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
