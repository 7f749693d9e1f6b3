import { webhookVariable } from '../../platform/config.ts';
import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { below, inConsole, link, mono, say, statePhrase, styled, whenAndAgo } from '../kit/document.ts';
import type { List, Phrase } from '../kit/document.ts';
import { ago, until } from '../kit/instants.ts';
import { eventPath, webhooksPath } from '../kit/links.ts';
import { count, quantity } from '../kit/words.ts';
import type {
  WebhookPage,
  WebhookProvider,
  WebhookReceipt,
  WebhookRefusal,
  WebhookRefusals,
  WebhookSetAside,
} from './fields.ts';
import { senderName } from './query.ts';
import { agoOr, countOrZero, fine, muted, troubled } from './words.ts';

export function providerList({ providers, generatedAt: now }: WebhookPage): List<WebhookProvider> {
  return {
    name: 'Providers',
    columns: [
      { label: 'Provider', isRowHeader: true, look: 'mono', cell: ({ provider }) => provider },
      { label: 'Endpoint', cell: endpointPhrase },
      {
        label: 'Last received',
        look: 'nowrap',
        cell: ({ lastReceivedAt }) => agoOr('none', lastReceivedAt, now),
      },
      {
        label: 'Refused today',
        tone: 'num',
        terminal: { leftOut: 'late' },
        cell: ({ provider, refusedToday }) =>
          refusedToday === 0
            ? countOrZero(0)
            : {
                html: html`<a href="${webhooksPath({ provider })}#refused">${count(refusedToday)}</a>`,
                text: count(refusedToday),
                style: 'yellow',
              },
      },
      {
        label: 'Set aside',
        tone: 'num',
        terminal: { leftOut: 'late' },
        cell: ({ setAside, isMoreSetAside }) =>
          isMoreSetAside
            ? { html: `over ${count(setAside)}`, text: `${count(setAside)}+` }
            : countOrZero(setAside),
      },
    ],
    rows: providers,
  };
}

function endpointPhrase({ provider, endpoint, scheme }: WebhookProvider): Phrase {
  const variable = webhookVariable(provider, 'SECRET');
  if (endpoint === 'configured') return fine(endpoint, `signed by the scheme ${scheme}`);
  if (endpoint === 'not_configured')
    return troubled('not configured', html`Every webhook is refused with 503: set <code>${variable}</code>.`);
  return troubled(
    endpoint,
    html`Every webhook is refused: correct <code>${variable}</code> or its <code>_SCHEME</code>.`,
  );
}

export function receiptList({ receipts, generatedAt: now }: WebhookPage): List<WebhookReceipt> {
  return {
    name: 'Received webhooks',
    caption: 'Received webhooks, newest first',
    columns: [
      {
        label: 'Received',
        look: 'nowrap',
        cell: ({ receivedAt, reconciledAt }) =>
          say`${whenAndAgo(receivedAt, now)}${inConsole(reconciledAt !== null && FOUND)}`,
      },
      {
        label: 'Webhook',
        look: 'about',
        terminal: { title: 'id', isFlexible: true },
        cell: ({ eventId, eventType, providerEventId }) => ({
          html: [typeOf(eventId, eventType ?? 'no type'), idOf(providerEventId)],
          text: providerEventId,
        }),
      },
      { label: 'Provider', look: 'mono', terminal: { leftOut: 'late' }, cell: ({ provider }) => provider },
      {
        label: 'Type',
        only: 'terminal',
        terminal: { isFlexible: true, leftOut: 'late' },
        cell: ({ eventType }) => eventType,
      },
      {
        label: 'What became of it',
        look: 'message',
        terminal: { title: 'became', isFlexible: true, leftOut: 'late' },
        cell: becamePhrase,
      },
      {
        label: 'Sent again',
        terminal: { title: 'again', leftOut: 'early' },
        cell: (receipt) => repetitions(receipt, now),
      },
      { label: 'Event', only: 'terminal', cell: ({ eventId }) => eventId ?? 'no longer kept' },
    ],
    rows: receipts.items,
  };
}

/** What became of a webhook: the events that it caused, or why there are none. */
function becamePhrase({ became, state, why, emitted }: WebhookReceipt): Phrase {
  switch (became) {
    case 'acted_on':
      return {
        html: emitted.map(
          ({ eventId, topic }) => html`<a class="mono s" href="${eventPath(eventId)}">${topic}</a>`,
        ),
        text: emitted.map(({ topic }) => topic).join(', '),
      };
    case 'nothing_new':
      return muted('nothing new: it was known');
    case 'ignored':
      return muted('ignored: its type means nothing here');
    case 'set_aside':
      return {
        html: html`set aside<span class="s">${why}</span>`,
        text: `set aside: ${why}`,
        style: 'yellow',
      };
    case 'no_longer_kept':
      return muted('no longer kept');
    default:
      return statePhrase(state ?? became);
  }
}

const FOUND = html`<span class="s">found by reconciliation</span>`;

function typeOf(eventId: string | null, type: string): Child {
  return eventId === null
    ? html`<span class="t mono">${type}</span>`
    : link(eventPath(eventId), type, 't').html;
}

function idOf(providerEventId: string): Html {
  return html`<span class="s mono wrap">${providerEventId}</span>`;
}

function repetitions(
  { duplicates, mismatches, lastDuplicateAt, reconciledAt }: WebhookReceipt,
  now: string,
): Phrase {
  const isFound = reconciledAt !== null;
  if (duplicates === 0)
    return isFound ? { ...muted('has not come'), text: 'never came' } : { ...muted('no'), text: '' };
  const text = `${isFound ? 'came later, ' : ''}${count(duplicates)}×${mismatches > 0 ? ', other body' : ''}`;
  const last = lastDuplicateAt === null ? '' : ago(lastDuplicateAt, now);
  if (isFound && duplicates === 1) return { html: ['came later', below(last).html], text };
  const times = duplicates === 1 ? 'once' : `${count(duplicates)} times`;
  const other =
    mismatches > 0 &&
    html`<span class="s fail-t"
      >${quantity(mismatches, 'time')} with another body, which was not emitted</span
    >`;
  return { html: [times, below(last && `last ${last}`).html, other], text };
}

/** Refusals by reason, of the provider that is asked for. */
export function reasonList({ refusals, filters, generatedAt: now }: WebhookPage): List<WebhookRefusals> {
  return {
    name: 'Refusals by reason',
    caption: 'Refused webhooks by provider and reason, the latest first',
    columns: [
      SENDER,
      {
        label: 'Reason',
        look: 'message',
        cell: ({ reason, meaning }) => ({
          html: html`<span class="t mono">${reason}</span><span class="s">${meaning}</span>`,
          text: reason,
        }),
      },
      { label: 'Today', tone: 'num', cell: ({ today }) => count(today) },
      { label: '30 days', tone: 'num', cell: ({ last30Days }) => count(last30Days) },
      { label: 'Last', look: 'nowrap', cell: ({ lastAt }) => agoOr('never', lastAt, now) },
      {
        label: 'Meaning',
        only: 'terminal',
        terminal: { isFlexible: true, leftOut: 'early' },
        cell: ({ meaning }) => styled('dim', meaning),
      },
    ],
    rows: refusals.byReason.filter(
      ({ provider }) => filters.provider === null || provider === filters.provider,
    ),
  };
}

const SENDER = {
  label: 'Provider',
  cell: ({ provider }: { readonly provider: string }) =>
    provider === 'unknown' ? { html: senderName(provider), text: provider } : mono(provider),
};

export function refusalList({ refusals, generatedAt: now }: WebhookPage): List<WebhookRefusal> {
  return {
    name: 'Newest refusals',
    caption: 'The newest refused webhooks, one by one',
    columns: [
      { label: 'Refused', look: 'nowrap', cell: ({ refusedAt }) => whenAndAgo(refusedAt, now) },
      SENDER,
      { label: 'Reason', look: 'mono', cell: ({ reason }) => reason },
    ],
    rows: refusals.items,
  };
}

export function setAsideList({ setAside, generatedAt: now }: WebhookPage): List<WebhookSetAside> {
  return {
    name: 'Webhooks set aside',
    caption: 'Webhooks set aside, newest first',
    columns: [
      { label: 'Set aside', look: 'nowrap', cell: ({ setAsideAt }) => whenAndAgo(setAsideAt, now) },
      {
        label: 'Payment intent',
        look: 'about',
        terminal: { title: 'intent', isFlexible: true },
        cell: ({ intentId, providerEventId, eventId }) =>
          say`${link(eventPath(eventId), intentId, 't')}${inConsole(idOf(providerEventId))}`,
      },
      { label: 'States', cell: ({ outcome }) => outcome },
      {
        label: 'Waits for',
        look: 'message',
        terminal: { isFlexible: true },
        cell: ({ detail }) => detail ?? muted('its payment intent'),
      },
      { label: 'Provider', look: 'mono', terminal: { leftOut: 'late' }, cell: ({ provider }) => provider },
      {
        label: 'Unclaimed',
        look: 'nowrap',
        terminal: { leftOut: 'early' },
        cell: ({ unclaimedAt }) => (unclaimedAt === null ? muted('never') : until(unclaimedAt, now)),
      },
      { label: 'Event', only: 'terminal', terminal: { leftOut: 'late' }, cell: ({ eventId }) => eventId },
    ],
    rows: setAside.items,
  };
}
