import stringWidth from 'string-width';

import type { DeadLetterItem } from '../../lib/console/dead-letters/fields.ts';
import { statePhrase } from '../../lib/console/kit/document.ts';
import { duration, timeOfDay, until } from '../../lib/console/kit/instants.ts';
import { failureText } from '../../lib/console/kit/states.ts';
import { attemptsOf, count, quantity } from '../../lib/console/kit/words.ts';
import type { Overview } from '../../lib/console/overview/read.ts';
import { SECOND, sleep } from '../../lib/platform/time.ts';
import { printableJson } from '../../lib/platform/visible.ts';
import type { Bus } from '../bus.ts';
import { atMost } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { EXIT } from '../failure.ts';
import {
  DeadLettersSeen,
  HeldLanesSeen,
  OutcomesSeen,
  changesBetween,
  countsOf,
  grown,
  haveFailuresChanged,
} from '../happenings.ts';
import type { Happening } from '../happenings.ts';
import { Unavailable } from '../refusals.ts';
import type { Pane } from '../terminal.ts';
import { cutMiddle, cutTo, padTo } from '../text.ts';
import { times } from '../times.ts';

const DEFAULT_SECONDS = 2;

/** For one request: a later answer would be out of date. */
const TIMEOUT_MS = 15 * SECOND;

const PAGE = 100;

const FIRST_OUTCOMES = 10;

/** More new dead letters than this between two looks are only counted. */
const MOST_LISTED = 500;

/** The waits before an unreachable server is tried again; the last one repeats. */
const BACKOFF_MS = [2, 4, 8, 15, 30].map((seconds) => seconds * SECOND);

export const command: Command = {
  name: 'tail',
  summary: 'follow dead letters, failing lanes and deliveries per second',
  usage: [
    'tail [--every <2>]',
    'tail [--topic <topic>] [--subscriber <name>] [--outcome <outcome>] [--every <2>]',
  ],
  notes: [
    'Runs until Ctrl-C. With --json it prints one object per line.',
    'With a topic, a subscriber or an outcome, follows the outcomes of deliveries that match, one by one, as Live in the console does: first the newest ten.',
    'A lane holds the deliveries of one subscription, or of one ordering key in it, in strict order: when one fails, those behind it wait.',
  ],
  options: {
    topic: { value: '<topic>', help: 'only outcomes of this topic' },
    subscriber: { value: '<name>', help: 'only outcomes of this subscriber' },
    outcome: { value: '<outcome>', help: 'only delivered, failing or dead-lettered' },
    every: { value: '<seconds>', help: `how often to look (default: every ${DEFAULT_SECONDS} seconds)` },
  },
  examples: [
    ['tail', 'during a deployment or a replay'],
    ['tail --subscriber ledger --outcome failing', 'what the ledger fails with, as it fails'],
    ['tail --json | jq -c \'select(.type == "dead_letter")\'', 'new dead letters, for a script'],
  ],
  run,
};

async function run(call: Call): Promise<number> {
  const { given, terminal, bus, isJson } = call;
  atMost(0, given);
  const everyMs = (given.wholeNumber('every', 1, 3600) ?? DEFAULT_SECONDS) * SECOND;
  const signal = untilInterrupted();
  const { out, err } = terminal;
  const filters = {
    topic: given.text('topic'),
    subscriber: given.text('subscriber'),
    outcome: given.text('outcome')?.replace('-', '_'),
  };
  const isFiltered = Object.values(filters).some((filter) => filter !== undefined);
  const look = await (isFiltered ? outcomes(bus, filters, signal) : following(bus, signal));
  try {
    // A server that can't be reached at first is probably the wrong one: no retries.
    let happened = await look();
    if (!isJson) err.write(err.paint('dim', `Following ${bus.url.origin}. ${times()} Press Ctrl-C to stop.`));
    for (;;) {
      for (const one of happened) out.write(isJson ? printableJson(one) : lineOf(one, out));
      await sleep(everyMs, signal);
      if (signal.aborted) return EXIT.ok;
      happened = await persistently(look, call, signal);
    }
  } catch (error) {
    // Ctrl-C aborts a request, which is no failure.
    if (signal.aborted) return EXIT.ok;
    throw error;
  }
}

function untilInterrupted(): AbortSignal {
  const interrupted = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => interrupted.abort());
  return interrupted.signal;
}

type Look = () => Promise<readonly Happening[]>;

/** Looks until the server answers; reports once that it is unreachable, and once that it is back. */
async function persistently(
  look: Look,
  { terminal }: Call,
  signal: AbortSignal,
): Promise<readonly Happening[]> {
  const { err } = terminal;
  let lostAt: number | null = null;
  for (let tries = 0; ; tries += 1) {
    try {
      const happened = await look();
      if (lostAt !== null)
        err.write(err.paint('green', `Reconnected after ${duration(Date.now() - lostAt)}.`));
      return happened;
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      if (lostAt === null && !signal.aborted) {
        lostAt = Date.now();
        err.write(`${err.paint('yellow', error.message)} Retrying until it answers.`);
      }
      const waitMs = BACKOFF_MS[Math.min(tries, BACKOFF_MS.length - 1)]!;
      await sleep(Math.max(waitMs, error.retryAfterMs ?? 0), signal);
      if (signal.aborted) return [];
    }
  }
}

/** @returns a function that reports the outcomes since its last call; first the newest. */
async function outcomes(
  bus: Bus,
  filters: Readonly<Record<string, string | undefined>>,
  signal: AbortSignal,
): Promise<Look> {
  const { showTail } = await import('../../lib/console/tail/routes.ts');
  const seen = new OutcomesSeen();
  const named = { topic: '--topic', subscriber: '--subscriber', outcome: '--outcome' };
  const asked = { query: { ...filters, limit: PAGE }, named, signal, timeoutMs: TIMEOUT_MS };
  return async () => seen.update((await bus.ask(showTail, asked)).view, FIRST_OUTCOMES);
}

/** @returns a function that reports the changes since its last call; first the current state. */
async function following(bus: Bus, signal: AbortSignal): Promise<Look> {
  const [{ showOverview }, { listDeadLetters }, { showTopic }] = await Promise.all([
    import('../../lib/console/overview/routes.ts'),
    import('../../lib/console/dead-letters/views.ts'),
    import('../../lib/console/lanes/views.ts'),
  ]);
  const lanes = new HeldLanesSeen();
  const options = { signal, timeoutMs: TIMEOUT_MS };
  let last: { readonly view: Overview; readonly dead: DeadLettersSeen } | null = null;

  const deadLetters = async (cursor?: string) => {
    const { view } = await bus.ask(listDeadLetters.route, { query: { limit: PAGE, cursor }, ...options });
    return view;
  };

  const newlyDead = async (seen: DeadLettersSeen): Promise<readonly DeadLetterItem[]> => {
    const found: DeadLetterItem[] = [];
    let cursor: string | undefined;
    for (;;) {
      const { items, nextCursor } = await deadLetters(cursor);
      found.push(...items.filter((item) => seen.isNew(item)));
      const isBeyond = items.length === 0 || !seen.isNew(items.at(-1)!);
      if (isBeyond || nextCursor === null || found.length >= MOST_LISTED) return found.toReversed();
      cursor = nextCursor;
    }
  };

  const heldOf = async (before: Overview | null, view: Overview) => {
    const changed = view.topics.filter(({ topic }) => haveFailuresChanged(before, view, topic));
    const asked = changed.map(async ({ topic }) => {
      const { view: shown } = await bus.ask(showTopic.route, { parameters: { topic }, ...options });
      return { topic, held: shown.heldLanes };
    });
    return await Promise.all(asked);
  };

  return async () => {
    const { view } = await bus.ask(showOverview, options);
    // Nothing is remembered until everything has been read, so that a look that fails half-way is repeated as a whole.
    const held = await heldOf(last?.view ?? null, view);
    const isRunning = view.relay.state === 'running';
    if (last === null) {
      const { items, nextCursor } = await deadLetters();
      last = { view, dead: new DeadLettersSeen(items, nextCursor === null) };
      const current: readonly Happening[] = [
        ...(isRunning ? [] : [{ at: view.generatedAt, type: 'relay', state: view.relay.state } as const]),
        countsOf(view, 0),
      ];
      return [...current, ...held.flatMap((one) => lanes.update(one.topic, one.held, view))];
    }
    const { view: before, dead } = last;
    const newItems = grown(before, view, 'deadLettered') > 0 ? await newlyDead(dead) : [];
    last = { view, dead };
    for (const item of newItems) dead.add(item);
    return [
      ...newItems.map((item): Happening => ({ at: item.deadLetteredAt, type: 'dead_letter', ...item })),
      ...held.flatMap((one) => lanes.update(one.topic, one.held, view)),
      ...changesBetween(before, view),
    ];
  };
}

/** Writes a happening as one line that fits the terminal: the topic is cut first, then the end. */
export function lineOf(happening: Happening, { paint, columns }: Pick<Pane, 'paint' | 'columns'>): string {
  const { style, word, what } = wordsOf(happening);
  const start = `${timeOfDay(happening.at)}  ${padTo(WORD_WIDTH, word)}  `;
  const room = columns === null ? Infinity : columns - stringWidth(start);
  const excess = stringWidth(what) - room;
  const topic = 'topic' in happening ? happening.topic : '';
  const cut = cutMiddle(Math.max(NARROWEST_TOPIC, stringWidth(topic) - excess), topic);
  const line = excess > 0 ? what.replace(topic, () => cut) : what;
  return `${start.replace(word, paint(style, word))}${cutTo(room, line)}`;
}

/** Shorter, a topic could not be told from others. */
const NARROWEST_TOPIC = 16;

/** The longest mark and word. */
const WORD_WIDTH = '✗ dead-lettered'.length;

interface Words {
  readonly style: Parameters<Pane['paint']>[0];
  readonly word: string;
  readonly what: string;
}

function wordsOf(happening: Happening): Words {
  switch (happening.type) {
    case 'counts': {
      const { pending, failing, deadLettered, deliveriesPerSecond: rate } = happening;
      const events = `${quantity(pending, 'event')} pending, ${count(failing)} failing, ${count(deadLettered)} dead-lettered`;
      const speed = rate === 0 ? '' : `; ${count(rate)} ${rate === 1 ? 'delivery' : 'deliveries'}/s`;
      return { style: 'dim', word: '· counts', what: events + speed };
    }
    case 'relay':
      return happening.state === 'running'
        ? { style: 'green', word: '✓ relay', what: 'is running' }
        : {
            style: 'red',
            word: '✗ relay',
            what:
              happening.state === 'stalled'
                ? 'has stopped: events are saved, but not delivered'
                : 'has never run',
          };
    case 'held_back':
      return {
        style: 'yellow',
        word: '! held back',
        what: `${happening.topic}: by a producer’s open transaction`,
      };
    case 'no_longer_held_back':
      return { style: 'green', word: '✓ flows', what: `${happening.topic}: the transaction has ended` };
    case 'paused':
    case 'resumed':
      return {
        style: happening.type === 'paused' ? 'yellow' : 'green',
        word: happening.type === 'paused' ? '! paused' : '✓ resumed',
        what: `${happening.topic} → ${happening.subscriber}`,
      };
    case 'failing_lane': {
      const { at, topic, subscriber, deliveryId, attempts, maxAttempts, nextAttemptAt, lastError } =
        happening;
      const { behind, isMoreBehind } = happening;
      const error = lastError ? `: ${failureText(lastError)}` : '';
      const waiting = behind === 0 ? '' : `, ${isMoreBehind ? 'over ' : ''}${count(behind)} behind it`;
      const what = `${deliveryId}  ${topic} → ${subscriber}  attempt ${attemptsOf(attempts, maxAttempts)}${error}; next ${until(nextAttemptAt, at)}${waiting}`;
      return { style: 'yellow', word: '! failing', what };
    }
    case 'flowing_lane':
      return { style: 'green', word: '✓ flows', what: `${happening.topic} → ${happening.subscriber}` };
    case 'outcome':
      return outcomeWords(happening);
    case 'more_outcomes':
      return {
        style: 'dim',
        word: '· more',
        what: `over ${PAGE} outcomes since the last look; the newest follow`,
      };
    case 'dead_letter': {
      const { topic, subscriber, deliveryId, lastError } = happening;
      return {
        style: 'red',
        word: '✗ dead-lettered',
        what: `${deliveryId}  ${topic} → ${subscriber}  ${failureText(lastError)}`,
      };
    }
  }
}

function outcomeWords(item: Extract<Happening, { readonly type: 'outcome' }>): Words {
  const { outcome, deliveryId, topic, subscriber, attempts, maxAttempts, durationMs, lastError } = item;
  const { text: word, style } = statePhrase(outcome);
  const error = lastError === null ? '' : `: ${failureText(lastError)}`;
  const took = durationMs === null ? '' : `after ${duration(durationMs)}`;
  const how = {
    delivered: took,
    failing: `attempt ${attemptsOf(attempts, maxAttempts)}${error}`,
    dead_lettered: lastError === null ? '' : failureText(lastError),
  }[outcome];
  return { style: style ?? 'dim', word, what: `${deliveryId}  ${topic} → ${subscriber}  ${how}`.trimEnd() };
}
