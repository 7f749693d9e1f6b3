import { webhooksPath, eventPath, eventsPath } from '../kit/links.ts';
import { view } from '../kit/view.ts';
import { webhookVariable } from '../../platform/webhook-settings.ts';
import { html } from '../../platform/markup.ts';
import type { Child } from '../../platform/markup.ts';
import { does } from '../kit/doc.ts';
import type { Block, Doc } from '../kit/doc.ts';
import {
  below,
  countColumn,
  inConsole,
  link,
  mono,
  muted,
  say,
  statePhrase,
  styled,
  whenAndAgo,
} from '../kit/document.ts';
import type { List, ListColumn, Part, Phrase } from '../kit/document.ts';
import { CHECK_ICON, WARNING_ICON } from '../kit/sections.ts';
import { ago, count, quantity } from '../kit/words.ts';
import { webhookFilters, webhookPage, webhookQuery } from './fields.ts';
import { readWebhooks } from './read.ts';
import type {
  WebhookPage,
  WebhookProvider,
  WebhookReceipt,
  WebhookRefusals,
  WebhookSetAside,
} from './fields.ts';

const listWebhooks = view({
  id: 'listWebhooks',
  path: webhooksPath(),
  summary: 'List what providers sent: receipts with their events, refusals, and what was set aside',
  query: webhookQuery,
  answer: webhookPage,
  problems: ['validation_failed'],
  handle: async ({ query, bus }) => await readWebhooks(await bus.database(), bus.webhooks(), query),
  says: webhooksDoc,
  command: {
    name: 'webhooks',
    summary: 'list what providers sent: received, refused, set aside, and what never came',
    notes: [
      'Received webhooks are listed as far back as their events are kept; --id finds any. No bodies are shown.',
    ],
    filters: webhookFilters,
    list: 'items',
    listed: 10,
    examples: [
      ['webhooks', 'the providers, and what they sent last'],
      ['webhooks --provider cardpayments', 'those of one provider'],
      ['webhooks --id evt_1QxK2m', 'whether this webhook was received'],
    ],
  },
});

export const webhookViews = [listWebhooks];

/** Says what providers sent: each provider, then refusals, what was set aside, and receipts. */
function webhooksDoc(page: WebhookPage): Doc {
  const { filters, generatedAt: at, nextCursor } = page;
  return {
    title: 'Webhooks',
    lead: 'What providers sent. A received webhook is an event; a refused one was not stored. No bodies are shown.',
    section: 'webhooks',
    at,
    filters: { path: webhooksPath(), by: webhookFilters, values: filters },
    blocks: [
      { id: 'providers', title: 'Providers', list: providerList(page) },
      ...(filters.id === undefined ? others(page) : []),
      receipts(page),
    ],
    nextCursor,
  };
}

function receipts(page: WebhookPage): Block {
  const { id, provider } = page.filters;
  const of = provider ?? 'any provider';
  return {
    id: 'received',
    title: id === undefined ? 'Received' : 'Found',
    hint:
      id === undefined
        ? 'newest first, as far back as events are kept; search by id for older ones'
        : 'receipts are kept forever',
    list: receiptList(page),
    empty: {
      title:
        id === undefined
          ? `No webhook of ${of} has been received, or its event is no longer kept`
          : `No webhook with the id ${id} was received from ${of}. If the provider did send it, it was refused: see Refused, which a search leaves out`,
    },
  };
}

function others(page: WebhookPage): readonly Block[] {
  return [
    {
      id: 'refused',
      title: 'Refused',
      hint: 'the last 30 days; docs/operate.md says what each reason means',
      list: refusalList(page),
      empty: { title: 'No webhook was refused in the last 30 days' },
    },
    {
      id: 'set-aside',
      title: 'Set aside',
      hint: say`the newest webhooks that wait for their payment intent, or for what makes them plausible; after 72 hours without an intent, one becomes ${UNCLAIMED}`,
      list: setAsideList(page),
      acts: ({ eventId, reason }: WebhookSetAside) => [
        reason === 'not_plausible' && does('accept-webhook', { eventId }, { of: eventId }),
      ],
      empty: { title: 'No webhook waits' },
    },
  ];
}

const UNCLAIMED = link(eventsPath({ topic: 'payment.webhook.unclaimed' }), 'payment.webhook.unclaimed');

function providerList({ providers, generatedAt: now }: WebhookPage): List<WebhookProvider> {
  return {
    name: 'Providers',
    columns: [
      { label: 'Provider', isRowHeader: true, look: 'mono', cell: ({ provider }) => provider },
      { label: 'Endpoint', cell: endpointPhrase },
      {
        label: 'Last received',
        look: 'nowrap',
        cell: ({ lastReceivedAt: at }) => (at === null ? muted('none') : whenAndAgo(at, now)),
      },
      {
        label: 'Webhooks that never came',
        look: 'message',
        cell: (one) => reconciliationPhrase(one, now),
      },
    ],
    rows: providers,
  };
}

function endpointPhrase({ provider, endpoint, scheme }: WebhookProvider): Phrase {
  const variable = webhookVariable(provider, 'SECRET');
  if (endpoint === 'configured') return verdict(true, endpoint, `signed by the scheme ${scheme}`);
  const words = endpoint === 'not_configured' ? 'not configured' : endpoint;
  return verdict(false, words, html`Every webhook is refused: set <code>${variable}</code>.`);
}

/** Whether a provider is asked for webhooks that never came, and with what success. */
function reconciliationPhrase({ provider, reconciliation }: WebhookProvider, now: string): Phrase | null {
  if (reconciliation === null) return null;
  const { setting, checkedAt, found, failures, lastError } = reconciliation;
  const variable = html`<code>${webhookVariable(provider, 'RECONCILE_KEY')}</code>`;
  if (setting === 'off')
    return say`${muted('not asked for')}${inConsole(below(html`To ask, set ${variable}.`).html)}`;
  if (setting === 'misconfigured') return verdict(false, setting, html`Correct ${variable}.`);
  if (failures > 0)
    return verdict(false, `asking fails: ${lastError}`, `${quantity(failures, 'time')} in a row`);
  const asked = checkedAt === null ? 'asked for soon' : `asked for ${ago(checkedAt, now)}`;
  return say`${verdict(true, asked)}${below(`${count(found)} found`, ', ')}`;
}

/** What works, or does not, by a sign and a word. @param more below it, in a browser. */
function verdict(isFine: boolean, words: string, more?: Child): Phrase {
  const [tone, icon] = isFine ? ['ok-t', CHECK_ICON] : ['fail-t', WARNING_ICON];
  const markup = html`<span class="state ${tone}">${icon}${words}</span
    >${more !== undefined && html`<span class="s">${more}</span>`}`;
  return { html: markup, text: words, ...(!isFine && { style: 'yellow' as const }) };
}

function receiptList({ items, generatedAt: now }: WebhookPage): List<WebhookReceipt> {
  return {
    name: 'Received webhooks',
    columns: [
      { label: 'Received', look: 'nowrap', cell: (receipt) => receivedPhrase(receipt, now) },
      {
        label: 'Webhook',
        look: 'about',
        cell: ({ eventId, eventType, providerEventId }) => {
          const type = eventType ?? 'no type';
          const shown = eventId === null ? mono(type) : link(eventPath(eventId), type, 't');
          return say`${shown}${belowId(providerEventId)}`;
        },
      },
      SENDER,
      { label: 'What became of it', look: 'message', cell: becamePhrase },
    ],
    rows: items,
    idOf: ({ eventId }) => eventId ?? '',
  };
}

const SENDER: ListColumn<{ readonly provider: string }> = {
  label: 'Provider',
  look: 'mono',
  cell: ({ provider }) => provider,
};

function belowId(providerEventId: string): Phrase {
  return { html: html`<span class="s mono wrap">${providerEventId}</span>`, text: `, ${providerEventId}` };
}

/** What became of a webhook: the events that it caused, or why there are none. */
function becamePhrase({ became, state, why, emitted }: WebhookReceipt): Phrase {
  switch (became) {
    case 'acted_on':
      return {
        html: emitted.map(({ eventId, topic }) => link(eventPath(eventId), topic, 's').html),
        text: emitted.map(({ topic }) => topic).join(', '),
      };
    case 'nothing_new':
      return muted('nothing new: it was known');
    case 'ignored':
      return muted('ignored: its type means nothing here');
    case 'set_aside':
      return styled('yellow', say`set aside${below(why, ': ')}`);
    case 'no_longer_kept':
      return muted('no longer kept');
    default:
      return statePhrase(state ?? became);
  }
}

/** When a webhook was received, or found at the provider, and how often it came besides. */
function receivedPhrase(
  { receivedAt, reconciledAt, duplicates, mismatches }: WebhookReceipt,
  now: string,
): Part {
  const found = reconciledAt !== null && below('found by reconciliation', ', ');
  const again = duplicates > 0 && below(quantity(duplicates, 'repetition'), ', ');
  const other = mismatches > 0 && below(`${count(mismatches)} with another body, not emitted`, ', ');
  return say`${whenAndAgo(receivedAt, now)}${found}${again}${other}`;
}

/** Refusals by reason, of the provider that is asked for. */
function refusalList({ refusals, generatedAt: now }: WebhookPage): List<WebhookRefusals> {
  return {
    name: 'Refusals by reason',
    columns: [
      SENDER,
      { label: 'Reason', look: 'mono', cell: ({ reason }) => reason },
      countColumn('30 days', ({ last30Days }) => last30Days),
      { label: 'Last', look: 'nowrap', cell: ({ lastAt }) => whenAndAgo(lastAt, now) },
    ],
    rows: refusals,
  };
}

function setAsideList({ setAside, generatedAt: now }: WebhookPage): List<WebhookSetAside> {
  return {
    name: 'Webhooks set aside',
    columns: [
      { label: 'Set aside', look: 'nowrap', cell: ({ setAsideAt }) => whenAndAgo(setAsideAt, now) },
      {
        label: 'Payment intent',
        look: 'about',
        cell: ({ intentId, providerEventId, eventId }) =>
          say`${link(eventPath(eventId), intentId, 't')}${belowId(providerEventId)}`,
      },
      {
        label: 'Waits for',
        look: 'message',
        cell: ({ outcome, detail }) => say`${outcome}: ${detail ?? 'its payment intent'}`,
      },
      SENDER,
    ],
    rows: setAside,
    idOf: ({ eventId }) => eventId,
  };
}
