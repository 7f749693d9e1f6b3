import { timeText } from '../../lib/console/kit/instants.ts';
import { count, joinNames } from '../../lib/console/kit/words.ts';
import { actionWords, targetPhrase } from '../../lib/console/replays/lists.ts';
import type { OperatorAction, OperatorLog, ReplayRecord } from '../../lib/console/replays/read.ts';
import { scopeWords } from '../../lib/console/replays/scope.ts';
import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { EXIT } from '../failure.ts';
import { gather } from '../gather.ts';
import type { Pane } from '../terminal.ts';
import { hang, padTo, wrapTo } from '../text.ts';
import { times } from '../times.ts';

/** A screenful. */
const LISTED = 20;

const FILTERS = {
  topic: { value: '<topic>', help: 'only this topic' },
  subscriber: { value: '<name>', help: 'only this subscriber' },
  operator: { value: '<name>', help: 'only this operator, as the log names them' },
  since: { value: '<24h>', help: 'only within this time, such as 90m, 24h or 7d' },
} as const;

export const command: Command = {
  name: 'log',
  summary: 'list what operators did, when and why',
  usage: ['log [--topic <topic>] [--subscriber <name>] [options]'],
  notes: ['The operator log has replays and all other actions, newest first. It is kept forever.'],
  options: { ...FILTERS, limit: { value: '<number>', help: `how many to list (default: ${LISTED})` } },
  examples: [
    ['log', 'the newest entries'],
    ['log --topic payment.captured --since 7d', 'those of one topic in the last week'],
    ['log --limit 1000 --json | jq .actions', 'for a script'],
  ],
  run,
};

async function run(call: Call): Promise<number> {
  const { given, terminal, isJson } = call;
  atMost(0, given);
  const { json, view } = await list(call);
  if (isJson) writeJson(call, json);
  else write(view, Object.keys(FILTERS).some(given.isSet), terminal.out);
  return EXIT.ok;
}

async function list({ given, bus }: Call) {
  const limit = given.wholeNumber('limit', 1, 10_000) ?? LISTED;
  const query = Object.fromEntries(Object.keys(FILTERS).map((name) => [name, given.text(name)]));
  const { listReplays } = await import('../../lib/console/replays/routes.ts');
  return await gather(bus, listReplays, { limit, lists: ['replays', 'actions'], query });
}

/** An entry of either list. */
interface Entry {
  readonly at: string;
  readonly action: string;
  readonly what: string;
  readonly who: string;
  readonly id: string | null;
}

function write(view: OperatorLog, isFiltered: boolean, pane: Pane): void {
  const entries = [...view.replays.map(replayEntry), ...view.actions.map(actionEntry)].toSorted(
    (one, other) => other.at.localeCompare(one.at),
  );
  if (entries.length === 0) {
    pane.write(isFiltered ? 'No entries match.' : 'The operator log is empty.');
    return;
  }
  const now = view.generatedAt;
  const timeWidth = Math.max(...entries.map(({ at }) => timeText(at, now).length));
  const actionWidth = Math.max(...entries.map(({ action }) => action.length));
  for (const entry of entries) {
    const time = padTo(timeWidth, timeText(entry.at, now));
    const start = `${time}  ${pane.paint('bold', padTo(actionWidth, entry.action))}  `;
    pane.write(entryText(start, ' '.repeat(timeWidth + actionWidth + 4), entry, pane));
  }
  const more = view.nextCursor === null ? '' : `There are older entries: add --limit ${entries.length * 5}. `;
  pane.write(`\n${pane.paint('dim', wrapTo(pane.columns, `${more}${times()}`))}`);
}

/** On a terminal as a paragraph; elsewhere in one line, for `grep`. */
function entryText(start: string, indent: string, { what, who, id }: Entry, { columns }: Pane): string {
  const parts = [what, who, ...(id === null ? [] : [id])];
  if (columns === null) return start + parts.join('  ');
  return parts.map((part, index) => hang(index === 0 ? start : indent, part, columns)).join('\n');
}

function replayEntry(replay: ReplayRecord): Entry {
  const { requestedAt, requestedBy, reason, topic, matched, replayed, replayId } = replay;
  const topics = [...new Set(replay.recipients?.map((one) => one.topic))];
  const what = [topic ?? joinNames(topics.slice(0, 3)), scopeWords(replay)].filter(Boolean).join(' ');
  return {
    at: requestedAt,
    action: 'replay',
    what: `${what}: ${count(replayed)} of ${count(matched)} replayed`,
    who: whoWords(requestedBy, reason),
    id: replayId,
  };
}

function actionEntry(acted: OperatorAction): Entry {
  const { at, action, operator, reason, backfillId, erasureId } = acted;
  return {
    at,
    action: actionWords(action),
    what: targetPhrase(acted).text,
    who: whoWords(operator, reason),
    id: erasureId ?? backfillId,
  };
}

const whoWords = (operator: string, reason: string | null) =>
  reason === null ? `by ${operator}` : `by ${operator}: ${reason}`;
