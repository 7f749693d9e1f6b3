import type { List } from '../../lib/console/kit/document.ts';
import type { WebhookPage } from '../../lib/console/webhooks/fields.ts';
import {
  providerList,
  reasonList,
  receiptList,
  refusalList,
  setAsideList,
} from '../../lib/console/webhooks/lists.ts';
import { reconciliationList } from '../../lib/console/webhooks/reconciliation-list.ts';
import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { drawList } from '../draw.ts';
import { EXIT } from '../failure.ts';
import { unknownName } from '../nearest.ts';
import type { Pane } from '../terminal.ts';
import { wrapTo } from '../text.ts';
import { times } from '../times.ts';

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
  const { isSender, senders } = await import('../../lib/console/webhooks/query.ts');
  if (provider !== undefined && !isSender(provider))
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
  if (view.providers.length > 0) {
    pane.write(drawList(pane, providerList(view)));
    part('Asked for webhooks that never came', reconciliationList(view));
    part('Received', receiptList(view), 'none');
  }
  part('Refused in the last 30 days', reasonList(view), 'none');
  part('The newest refusals', refusalList(view));
  part('Set aside until their payment intent is recorded', setAsideList(view));
  pane.write(`\n${pane.paint('dim', times())}`);

  /** @param none says that the list is empty; without it an empty list is left out. */
  function part<Row>(title: string, list: List<Row>, none?: string): void {
    const heading = `\n${pane.paint('bold', `${title}:`)}`;
    if (list.rows.length > 0) pane.write(`${heading}\n${drawList(pane, list)}`);
    else if (none !== undefined) pane.write(`${heading} ${none}`);
  }
}

function writeFound(view: WebhookPage, id: string, pane: Pane): void {
  const found = receiptList(view);
  if (found.rows.length > 0) return pane.write(drawList(pane, found));
  const of = view.filters.provider ?? 'any provider';
  pane.write(
    wrapTo(
      pane.columns,
      `No webhook with the id '${id}' was received from ${of}. If the provider did send it, it was refused: see npx postbud webhooks.`,
    ),
  );
}
