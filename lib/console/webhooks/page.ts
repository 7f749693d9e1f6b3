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
        columns: ['Provider', 'Endpoint', 'Last received', ['Refused today', 'num'], ['Set aside', 'num']],
        rows: providers.map((provider) => providerRow(provider, generatedAt)),
      }),
    ),
  });
}

function providerRow(one: WebhookProvider, now: string): Html {
  const { provider, lastReceivedAt, refusedToday, setAside, isMoreSetAside } = one;
  return html`<tr class="r">
    <th class="row mono" scope="row">${provider}</th>
    <td>${endpointWords(one)}</td>
    <td class="nowrap">
      ${lastReceivedAt === null ? html`<span class="muted">none</span>` : timeAndAgo(lastReceivedAt, now)}
    </td>
    <td class="num">
      ${
        refusedToday === 0
          ? html`<span class="muted">0</span>`
          : html`<a href="${webhooksPath({ provider })}#refused">${count(refusedToday)}</a>`
      }
    </td>
    <td class="num">
      ${setAside === 0 ? html`<span class="muted">0</span>` : `${isMoreSetAside ? 'over ' : ''}${count(setAside)}`}
    </td>
  </tr>`;
}

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
            columns: ['Received', 'Webhook', 'Provider', 'Event', 'Sent again'],
            rows: items.map((item) => receiptRow(item, generatedAt)),
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

function receiptRow(item: WebhookReceipt, now: string): Html {
  const { providerEventId, eventType, provider, receivedAt, reconciledAt, eventId, state } = item;
  return html`<tr class="r">
    <td class="nowrap">
      ${timeAndAgo(receivedAt, now)}${reconciledAt !== null && html`<span class="s">found by reconciliation</span>`}
    </td>
    <td class="about">
      ${
        eventId === null
          ? html`<span class="t mono">${eventType ?? 'no type'}</span>`
          : html`<a class="t mono" href="${eventPath(eventId)}">${eventType ?? 'no type'}</a>`
      }<span class="s mono wrap">${providerEventId}</span>
    </td>
    <td class="mono">${provider}</td>
    <td>${state === null ? html`<span class="muted">no longer kept</span>` : stateLabel(state)}</td>
    <td>${repetitions(item, now)}</td>
  </tr>`;
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
        columns: ['Provider', 'Reason', ['Today', 'num'], ['30 days', 'num'], 'Last'],
        rows: shown.map(
          ({ provider, reason, meaning, today, last30Days, lastAt }) =>
            html`<tr class="r">
              <td>${senderLabel(provider)}</td>
              <td class="message"><span class="t mono">${reason}</span><span class="s">${meaning}</span></td>
              <td class="num">${count(today)}</td>
              <td class="num">${count(last30Days)}</td>
              <td class="nowrap">${timeAndAgo(lastAt, generatedAt)}</td>
            </tr>`,
        ),
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
            columns: ['Refused', 'Provider', 'Reason'],
            rows: items.map(
              ({ provider, reason, refusedAt }) =>
                html`<tr class="r">
                  <td class="nowrap">${timeAndAgo(refusedAt, generatedAt)}</td>
                  <td>${senderLabel(provider)}</td>
                  <td class="mono">${reason}</td>
                </tr>`,
            ),
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
              columns: ['Set aside', 'Payment intent', 'Says', 'Provider', 'Unclaimed'],
              rows: items.map((item) => setAsideRow(item, generatedAt)),
            }),
      )}
      <p class="muted small note">
        After 72 hours such a webhook becomes the event
        <a href="${eventsPath({ topic: 'payment.webhook.unclaimed' })}">payment.webhook.unclaimed</a>.
      </p>
      ${listPager('set-aside', nextCursor, isOlder, url)}`,
  });
}

function setAsideRow(item: WebhookSetAside, now: string): Html {
  const { intentId, providerEventId, provider, outcome, setAsideAt, unclaimedAt, eventId } = item;
  return html`<tr class="r">
    <td class="nowrap">${timeAndAgo(setAsideAt, now)}</td>
    <td class="about">
      <a class="t mono" href="${eventPath(eventId)}">${intentId}</a
      ><span class="s mono wrap">${providerEventId}</span>
    </td>
    <td>${outcome}</td>
    <td class="mono">${provider}</td>
    <td class="nowrap">${until(unclaimedAt, now)}</td>
  </tr>`;
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
