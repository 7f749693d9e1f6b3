import { statePhrase } from '../../lib/console/kit/document.ts';
import { timeOfDay } from '../../lib/console/kit/words.ts';
import type { EventItem } from '../../lib/console/events/fields.ts';
import { listEvents } from '../../lib/console/events/views.ts';
import { sleep } from '../../lib/platform/time.ts';
import { printableJson } from '../../lib/platform/visible.ts';
import type { Call, Command } from '../command.ts';
import { misused } from '../arguments.ts';
import { times } from '../draw.ts';
import { EVERY_MS } from '../follow.ts';
import { viewCommand } from '../view-command.ts';
import { Unavailable } from '../refusals.ts';
import type { Pane } from '../terminal.ts';
import { hang, padTo } from '../terminal.ts';

const listing = viewCommand(listEvents);

export const command: Command = {
  ...listing,
  usage: [...listing.usage, 'events --follow [options]'],
  notes: [
    ...listing.notes,
    'With --follow, writes each of the newest events as it comes and when its state changes, one a line, until Ctrl-C.',
  ],
  options: {
    ...listing.options,
    follow: { help: 'follow what becomes of events, until Ctrl-C; with --json one object a line' },
  },
  examples: [
    ...listing.examples,
    ['events --follow --subscriber ledger --state failing', 'what the ledger fails with, as it fails'],
  ],
  run: async (call) => (call.given.isSet('follow') ? await followEvents(call) : await listing.run(call)),
};

/** Events that are looked at each time. */
const PAGE = 100;

/** Events that are there already, and are written first. */
const FIRST = 10;

/** Lists the newest events again and again, and writes those that are new or have another state. */
async function followEvents({ given, terminal, bus, isJson }: Call): Promise<number> {
  const refused = ['since', 'limit'].find((option) => given.isSet(option));
  if (refused !== undefined) throw misused(`--${refused} can’t be used with --follow.`);
  if (given.positionals.length > 0) throw misused('--follow takes filters, and no id or key.');
  const { out, err } = terminal;
  const filters = ['topic', 'subscriber', 'state'].map((name) => [name, given.text(name)]);
  const query = { ...Object.fromEntries(filters), limit: PAGE };
  let known: ReadonlySet<string> | null = null;
  /** What is older comes back where a newer one leaves the list: it is no news. */
  let oldest = '';
  const look = async () => {
    const { generatedAt, items } = (await bus.ask(listEvents.route, { query })).view;
    const fresh = items.filter((item) => item.createdAt >= oldest && known?.has(keyOf(item)) !== true);
    for (const item of (known === null ? fresh.slice(0, FIRST) : fresh).toReversed())
      out.write(
        isJson ? printableJson(item) : lineOf(item, known === null ? item.createdAt : generatedAt, out),
      );
    if (known === null && items.length === PAGE) oldest = items.at(-1)!.createdAt;
    known = new Set(items.map(keyOf));
  };
  // A server that can't be reached at first is probably the wrong one: no retries.
  await look();
  if (!isJson) err.write(err.paint('dim', `Following ${bus.url.origin}. ${times()} Press Ctrl-C to stop.`));
  for (let isLost = false; ;) {
    let waitMs = EVERY_MS;
    try {
      await look();
      if (isLost) err.write(err.paint('green', 'Reconnected.'));
      isLost = false;
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      if (!isLost) err.write(`${err.paint('yellow', error.message)} Retrying until it answers.`);
      isLost = true;
      waitMs = Math.max(waitMs, error.retryAfterMs ?? 0);
    }
    await sleep(waitMs);
  }
}

const keyOf = ({ eventId, state }: EventItem) => `${eventId} ${state}`;

/** The longest mark and word. */
const STATE_WIDTH = '✗ dead-lettered'.length;

/** Says it in one line, which a narrow terminal continues below. */
function lineOf({ eventId, topic, subject, state }: EventItem, at: string, pane: Pane): string {
  const { text, style } = statePhrase(state);
  const start = `${timeOfDay(at)}  ${pane.paint(style, padTo(STATE_WIDTH, text))}  `;
  return hang(start, [eventId, topic, subject].filter(Boolean).join('  '), pane.columns);
}
