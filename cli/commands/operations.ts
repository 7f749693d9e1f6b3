import { phraseOf } from '../../lib/console/kit/document.ts';
import type { Listed } from '../../lib/console/kit/operation-pages.ts';
import { numberText } from '../../lib/console/kit/words.ts';
import type { Answered } from '../bus.ts';
import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { whoWords, writeEntries } from '../entries.ts';
import type { Entry } from '../entries.ts';
import { EXIT, misused } from '../failure.ts';
import { gather, MOST } from '../gather.ts';
import { unknownName } from '../nearest.ts';
import type { Pane } from '../terminal.ts';

/** A screenful. */
const LISTED = 20;

/** Each kind of operation, as its page lists it. */
const KINDS = {
  async replays({ bus }: Call, limit: number) {
    const { listReplays } = await import('../../lib/console/replays/routes.ts');
    const { listedReplays } = await import('../../lib/console/replays/log-page.ts');
    const answered = await gather(bus, listReplays, {
      limit,
      lists: ['replays'],
      query: { only: 'replays' },
    });
    return shown(answered, listedReplays(answered.view));
  },
  async backfills({ bus }: Call, limit: number) {
    const { listBackfills } = await import('../../lib/console/backfills/operations.ts');
    const { listedBackfills } = await import('../../lib/console/backfills/list-page.ts');
    const answered = await gather(bus, listBackfills, { limit, lists: ['items'] });
    return shown(answered, listedBackfills(answered.view));
  },
  async erasures({ bus }: Call, limit: number) {
    const { listErasures } = await import('../../lib/console/erasures/operations.ts');
    const { listedErasures } = await import('../../lib/console/erasures/list-page.ts');
    const answered = await gather(bus, listErasures, { limit, lists: ['items'] });
    return shown(answered, listedErasures(answered.view));
  },
  async 'smoke-tests'({ bus }: Call, limit: number) {
    const { listSmokeTests } = await import('../../lib/console/smoke/routes.ts');
    const { listedSmokeTests } = await import('../../lib/console/smoke/list-page.ts');
    const answered = await gather(bus, listSmokeTests, { limit, lists: ['items'] });
    return shown(answered, listedSmokeTests(answered.view));
  },
};

const NAMES = Object.keys(KINDS);

export const command: Command = {
  name: 'operations',
  summary: 'list the replays, backfills, erasures or smoke tests',
  usage: [`operations <${NAMES.join('|')}> [--limit <number>]`],
  notes: [
    'Newest first, each with what it is done to, how far it is, who began it and why, and its id.',
    'A backfill and a paced replay can be stopped, with backfill --stop <id> and replay --stop <id>. The others can’t be: see their pages.',
  ],
  options: { limit: { value: '<number>', help: `how many to list (default: ${LISTED})` } },
  examples: [
    ['operations backfills', 'which older events were delivered later, and how far that is'],
    ['operations smoke-tests --limit 1 --json', 'the last test, for a script'],
  ],
  run,
};

async function run(call: Call): Promise<number> {
  const { given, terminal, isJson } = call;
  atMost(1, given);
  const [named] = given.positionals;
  if (named === undefined)
    throw misused('The kind of operation is missing.', `Write one of: ${NAMES.join(', ')}.`);
  if (!isKind(named)) throw unknownName('kind of operation', named, NAMES);
  const { json, view, entries } = await KINDS[named](call, given.wholeNumber('limit', 1, MOST) ?? LISTED);
  if (isJson) writeJson(call, json);
  else write(terminal.out, entries, view);
  return EXIT.ok;
}

const isKind = (named: string): named is keyof typeof KINDS => Object.hasOwn(KINDS, named);

interface View {
  readonly generatedAt: string;
  readonly nextCursor: string | null;
}

interface Shown extends Answered<View> {
  readonly entries: readonly Entry[];
}

function shown<Row extends Requested>(answered: Answered<View>, listed: Listed<Row>): Shown {
  return { ...answered, entries: listed.rows.map((row) => entryOf(row, listed)) };
}

type Requested = {
  readonly requestedAt: string;
  readonly requestedBy: string;
  readonly reason?: string | null;
};

function entryOf<Row extends Requested>(
  row: Row,
  { id, name, scope, numbers, state, kind, one = () => kind.one }: Listed<Row>,
): Entry {
  const what = [name(row), scope === undefined ? '' : phraseOf(scope(row)).text].filter(Boolean).join(' ');
  const figures = numbers.map(([label, of]) => `${numberText(of(row))} ${label.toLowerCase()}`).join(', ');
  const how = state === undefined ? [] : [phraseOf(state(row)).text];
  return {
    at: row.requestedAt,
    word: one(row),
    parts: [
      `${what}: ${[figures, ...how].join('; ')}`,
      whoWords(row.requestedBy, row.reason ?? null),
      id(row),
    ],
  };
}

function write(pane: Pane, entries: readonly Entry[], { generatedAt, nextCursor }: View): void {
  if (entries.length === 0) return pane.write('None so far.');
  writeEntries(pane, entries, generatedAt, nextCursor !== null);
}
