import { statePhrase } from '../../lib/console/kit/document.ts';
import { ago, timeText, until } from '../../lib/console/kit/instants.ts';
import { count } from '../../lib/console/kit/words.ts';
import type { WebhookPage, WebhookProvider, WebhookReceipt } from '../../lib/console/webhooks/read.ts';
import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { EXIT } from '../failure.ts';
import { unknownName } from '../nearest.ts';
import { table } from '../table.ts';
import type { Pane } from '../terminal.ts';
import { wrapTo } from '../text.ts';
import { TIMES } from '../times.ts';

/** A screenful of each list. */
const LISTED = 10;

export const command: Command = {
  name: 'webhooks',
  summary: 'list what providers sent: received, refused, set aside, and what never came',
  usage: ['webhooks [--provider <name>] [--limit <10>]', 'webhooks --id <id>'],
  notes: [
    'Received webhooks are listed as far back as their events are kept; --id finds any. Of each day, provider and reason the newest 20 refusals are listed, and all are counted. No bodies are shown.',
  ],
  options: {
    provider: { value: '<name>', help: 'only this provider; unknown: requests to no provider’s address' },
    id: { value: '<id>', help: 'find one webhook by the id that its provider gave it' },
    limit: { value: '<number>', help: `how many of each to list, newest first (default: ${LISTED})` },
  },
  examples: [
    ['webhooks', 'the providers, and what they sent last'],
    ['webhooks --provider cardpayments --limit 50', 'more of one provider'],
    ['webhooks --id evt_1QxK2m', 'whether this webhook was received'],
  ],
  run,
};

async function run(call: Call): Promise<number> {
  const { given, bus, isJson, terminal } = call;
  atMost(0, given);
  const provider = given.text('provider');
  const { senders } = await import('../../lib/console/webhooks/query.ts');
  if (provider !== undefined && !senders.some((name) => name === provider))
    throw unknownName('provider', provider, senders, `The providers are ${senders.join(', ')}.`);
  const { listWebhooks } = await import('../../lib/console/webhooks/routes.ts');
  const id = given.text('id');
  const query = { provider, id, limit: given.wholeNumber('limit', 1, 100) ?? LISTED };
  const { json, view } = await bus.ask(listWebhooks, { query });
  if (isJson) writeJson(call, json);
  else if (id === undefined) writeAll(view, terminal.out);
  else writeFound(view, id, terminal.out);
  return EXIT.ok;
}

function writeAll(view: WebhookPage, pane: Pane): void {
  const { providers, receipts, refusals, setAside, filters, generatedAt: now } = view;
  const byReason = refusals.byReason.filter(
    ({ provider }) => filters.provider === null || provider === filters.provider,
  );
  if (providers.length > 0) {
    pane.write(providerTable(providers, now, pane));
    const askable = providers.filter(({ reconciliation }) => reconciliation !== null);
    if (askable.length > 0)
      part('Asked for webhooks that never came', reconciliationTable(askable, now, pane));
    part('Received', receipts.items.length === 0 ? 'none' : receiptTable(view, pane));
  }
  part('Refused in the last 30 days', byReason.length === 0 ? 'none' : reasonTable(byReason, now, pane));
  if (refusals.items.length > 0) part('The newest refusals', refusalTable(refusals.items, now, pane));
  if (setAside.items.length > 0)
    part('Set aside until their payment intent is recorded', setAsideTable(setAside.items, now, pane));
  pane.write(`\n${pane.paint('dim', TIMES)}`);

  function part(title: string, content: string): void {
    pane.write(`\n${pane.paint('bold', `${title}:`)}${content === 'none' ? ' none' : `\n${content}`}`);
  }
}

function writeFound(view: WebhookPage, id: string, pane: Pane): void {
  const { items } = view.receipts;
  if (items.length > 0) return pane.write(receiptTable(view, pane));
  const of = view.filters.provider ?? 'any provider';
  pane.write(
    wrapTo(
      pane.columns,
      `No webhook with the id '${id}' was received from ${of}. If the provider did send it, it was refused: see npx postbud webhooks.`,
    ),
  );
}

const ENDPOINTS = {
  configured: 'configured',
  not_configured: 'not configured',
  misconfigured: 'misconfigured',
};

function providerTable(providers: readonly WebhookProvider[], now: string, pane: Pane): string {
  const columns = [
    { title: 'provider' },
    { title: 'endpoint' },
    { title: 'last received' },
    { title: 'refused today', align: 'right', leftOut: 'late' },
    { title: 'set aside', align: 'right', leftOut: 'late' },
  ] as const;
  return table(
    pane,
    columns,
    providers.map(({ provider, endpoint, lastReceivedAt, refusedToday, setAside, isMoreSetAside }) => [
      provider,
      endpoint === 'configured' ? endpoint : { text: ENDPOINTS[endpoint], style: 'yellow' },
      lastReceivedAt === null ? 'none' : ago(lastReceivedAt, now),
      refusedToday === 0 ? '0' : { text: count(refusedToday), style: 'yellow' },
      `${count(setAside)}${isMoreSetAside ? '+' : ''}`,
    ]),
  );
}

function reconciliationTable(providers: readonly WebhookProvider[], now: string, pane: Pane): string {
  const columns = [
    { title: 'provider' },
    { title: 'asked' },
    { title: 'last checked' },
    { title: 'found', align: 'right' },
    { title: 'last error', isFlexible: true, leftOut: 'early' },
  ] as const;
  return table(
    pane,
    columns,
    providers.flatMap(({ provider, reconciliation }) => {
      if (reconciliation === null) return [];
      const { setting, failures, checkedAt, found, lastError } = reconciliation;
      const words = setting === 'on' && failures > 0 ? 'failing' : setting;
      return [
        [
          provider,
          words === 'on' || words === 'off' ? words : { text: words, style: 'yellow' as const },
          checkedAt === null ? 'never' : ago(checkedAt, now),
          count(found),
          lastError === null ? '' : `${lastError.message} (${ago(lastError.at, now)})`,
        ],
      ];
    }),
  );
}

function receiptTable({ receipts, generatedAt: now }: WebhookPage, pane: Pane): string {
  const columns = [
    { title: 'received' },
    { title: 'provider', leftOut: 'late' },
    { title: 'type', isFlexible: true, leftOut: 'late' },
    { title: 'id', isFlexible: true },
    { title: 'state', leftOut: 'late' },
    { title: 'again', align: 'right', leftOut: 'early' },
    { title: 'event' },
  ] as const;
  return table(
    pane,
    columns,
    receipts.items.map((item) => [
      timeText(item.receivedAt, now),
      item.provider,
      item.eventType ?? '',
      item.providerEventId,
      item.state === null ? '' : statePhrase(item.state),
      repetitions(item),
      item.eventId ?? 'no longer kept',
    ]),
  );
}

function repetitions({ duplicates, mismatches, reconciledAt }: WebhookReceipt): string {
  const times = `${count(duplicates)}×${mismatches > 0 ? ', other body' : ''}`;
  if (reconciledAt === null) return duplicates === 0 ? '' : times;
  return duplicates === 0 ? 'never came' : `came later, ${times}`;
}

function reasonTable(items: WebhookPage['refusals']['byReason'], now: string, pane: Pane): string {
  const columns = [
    { title: 'today', align: 'right' },
    { title: '30 days', align: 'right' },
    { title: 'last' },
    { title: 'provider' },
    { title: 'reason' },
    { title: 'meaning', isFlexible: true, leftOut: 'early' },
  ] as const;
  return table(
    pane,
    columns,
    items.map(({ provider, reason, meaning, today, last30Days, lastAt }) => [
      count(today),
      count(last30Days),
      ago(lastAt, now),
      provider,
      reason,
      { text: meaning, style: 'dim' },
    ]),
  );
}

function refusalTable(items: WebhookPage['refusals']['items'], now: string, pane: Pane): string {
  const columns = [{ title: 'refused' }, { title: 'provider' }, { title: 'reason' }] as const;
  return table(
    pane,
    columns,
    items.map(({ provider, reason, refusedAt }) => [timeText(refusedAt, now), provider, reason]),
  );
}

function setAsideTable(items: WebhookPage['setAside']['items'], now: string, pane: Pane): string {
  const columns = [
    { title: 'set aside' },
    { title: 'provider', leftOut: 'late' },
    { title: 'intent', isFlexible: true },
    { title: 'says' },
    { title: 'unclaimed', leftOut: 'early' },
    { title: 'event', leftOut: 'late' },
  ] as const;
  return table(
    pane,
    columns,
    items.map((item) => [
      timeText(item.setAsideAt, now),
      item.provider,
      item.intentId,
      item.outcome,
      until(item.unclaimedAt, now),
      item.eventId,
    ]),
  );
}
