import { actWords } from '../../lib/console/kit/acts.ts';
import { count, joinNames } from '../../lib/console/kit/words.ts';
import { farWords, targetPhrase } from '../../lib/console/replays/lists.ts';
import type { OperatorAction, OperatorLog, ReplayRecord } from '../../lib/console/replays/read.ts';
import { scopeWords } from '../../lib/console/replays/scope.ts';
import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { whoWords, writeEntries } from '../entries.ts';
import type { Entry } from '../entries.ts';
import { EXIT } from '../failure.ts';
import { gather, MOST } from '../gather.ts';
import type { Pane } from '../terminal.ts';

/** A screenful. */
const LISTED = 20;

const FILTERS = {
  topic: { value: '<topic>', help: 'only this topic' },
  subscriber: { value: '<name>', help: 'only this subscriber' },
  operator: { value: '<name>', help: 'only this operator, as the log names them' },
  since: { value: '<24h>', help: 'only within this time, such as 90m, 24h or 7d' },
  only: {
    value: '<replays|backfills|erasures>',
    help: 'only one kind of operation, each with how far it is',
  },
} as const;

export const command: Command = {
  name: 'log',
  summary: 'list what operators did, when and why',
  usage: ['log [--topic <topic>] [--subscriber <name>] [options]'],
  notes: [
    'The operator log has replays and all other actions, newest first. It is kept forever.',
    'A backfill and a paced replay can be stopped, with backfill --stop <id> and replay --stop <id>. An erasure can’t be.',
  ],
  options: { ...FILTERS, limit: { value: '<number>', help: `how many to list (default: ${LISTED})` } },
  examples: [
    ['log', 'the newest entries'],
    ['log --topic payment.captured --since 7d', 'those of one topic in the last week'],
    ['log --only backfills', 'which older events were delivered later, and how far that is'],
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
  const limit = given.wholeNumber('limit', 1, MOST) ?? LISTED;
  const query = Object.fromEntries(Object.keys(FILTERS).map((name) => [name, given.text(name)]));
  const { listReplays } = await import('../../lib/console/replays/routes.ts');
  return await gather(bus, listReplays, { limit, lists: ['replays', 'actions'], query });
}

function write(view: OperatorLog, isFiltered: boolean, pane: Pane): void {
  const entries = [...view.replays.map(replayEntry), ...view.actions.map(actionEntry)].toSorted(
    (one, other) => other.at.localeCompare(one.at),
  );
  if (entries.length === 0) {
    pane.write(isFiltered ? 'No entries match.' : 'The operator log is empty.');
    return;
  }
  writeEntries(pane, entries, view.generatedAt, view.nextCursor !== null);
}

function replayEntry(replay: ReplayRecord): Entry {
  const { requestedAt, requestedBy, reason, topic, matched, replayed, replayId } = replay;
  const topics = [...new Set(replay.recipients?.map((one) => one.topic))];
  const what = [topic ?? joinNames(topics.slice(0, 3)), scopeWords(replay)].filter(Boolean).join(' ');
  return {
    at: requestedAt,
    word: 'replay',
    parts: [
      `${what}: ${count(replayed)} of ${count(matched)} replayed`,
      whoWords(requestedBy, reason),
      replayId,
    ],
  };
}

function actionEntry(acted: OperatorAction): Entry {
  const { at, action, deliveries, operator, reason, backfillId, erasureId } = acted;
  const id = erasureId ?? backfillId;
  const outcome = deliveries === null ? farWords(acted) : actWords(action, deliveries);
  return {
    at,
    word: actWords(action, null),
    parts: [
      `${targetPhrase(acted).text}${outcome === null ? '' : `: ${outcome}`}`,
      whoWords(operator, reason),
      ...(id === null ? [] : [id]),
    ],
  };
}
