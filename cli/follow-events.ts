import stringWidth from 'string-width';

import { statePhrase } from '../lib/console/kit/document.ts';
import { duration, timeOfDay } from '../lib/console/kit/instants.ts';
import { failureText } from '../lib/console/kit/states.ts';
import { attemptsOf } from '../lib/console/kit/words.ts';
import type { Tail, TailItem } from '../lib/console/tail/read.ts';
import { SECOND, sleep } from '../lib/platform/time.ts';
import { printableJson } from '../lib/platform/visible.ts';
import type { Call } from './command.ts';
import { EXIT, misused } from './failure.ts';
import { Unavailable } from './refusals.ts';
import type { Pane } from './terminal.ts';
import { cutMiddle, cutTo, padTo } from './text.ts';
import { times } from './times.ts';

const EVERY_MS = 2 * SECOND;

/** For one request: a later answer would be out of date. */
const TIMEOUT_MS = 15 * SECOND;

const PAGE = 100;

const FIRST_OUTCOMES = 10;

/** The waits before an unreachable server is tried again; the last one repeats. */
const BACKOFF_MS = [2, 4, 8, 15, 30].map((seconds) => seconds * SECOND);

/** What became of a delivery or of the relay. `at` is by the database's clock. */
export type Happening = { readonly at: string } & (
  | ({ readonly type: 'outcome' } & TailItem)
  /** There were more outcomes since the last look than those that follow. */
  | { readonly type: 'more_outcomes' }
  | { readonly type: 'relay'; readonly state: Tail['relay'] }
);

/** Writes the outcomes of deliveries as they come, one a line, until Ctrl-C. */
export async function followEvents(call: Call): Promise<number> {
  const { given, terminal, bus, isJson } = call;
  const refused = ['since', 'limit'].find((option) => given.isSet(option));
  if (refused !== undefined) throw misused(`--${refused} can’t be used with --follow.`);
  if (given.positionals.length > 0) throw misused('--follow takes filters, and no id or key.');
  const signal = untilInterrupted();
  const { out, err } = terminal;
  const { showTail } = await import('../lib/console/tail/routes.ts');
  const query = {
    topic: given.text('topic'),
    subscriber: given.text('subscriber'),
    outcome: given.text('state'),
    limit: PAGE,
  };
  const named = { topic: '--topic', subscriber: '--subscriber', outcome: '--state' };
  const asked = { query, named, signal, timeoutMs: TIMEOUT_MS };
  const seen = new OutcomesSeen();
  const look = async () => seen.update((await bus.ask(showTail, asked)).view, FIRST_OUTCOMES);
  try {
    // A server that can't be reached at first is probably the wrong one: no retries.
    let happened = await look();
    if (!isJson) err.write(err.paint('dim', `Following ${bus.url.origin}. ${times()} Press Ctrl-C to stop.`));
    for (;;) {
      for (const one of happened) out.write(isJson ? printableJson(one) : lineOf(one, out));
      await sleep(EVERY_MS, signal);
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

/** Looks until the server answers; reports once that it is unreachable, and once that it is back. */
async function persistently(
  look: () => Promise<readonly Happening[]>,
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

/** Tells new outcomes from known ones. A delivery that is tried again has a new one. */
export class OutcomesSeen {
  /** Since the floor: a lane that a replay makes due is not listed, and then waits for the same retry as before. */
  #seen: ReadonlySet<string> | null = null;
  /** All older outcomes are known, even unlisted ones. */
  #floor = '';
  #relay: Tail['relay'] = 'running';

  /** @param first how many of those that there are at the first look are new. */
  update({ generatedAt: at, items, relay, filters: { limit } }: Tail, first: number): readonly Happening[] {
    const known = this.#seen;
    const fresh = items.filter((item) => item.at >= this.#floor && known?.has(keyOf(item)) !== true);
    const oldest = items.length === limit ? items.at(-1)!.at : '';
    if (oldest > this.#floor) this.#floor = oldest;
    const all = [...(known ?? []), ...items.map(keyOf)];
    this.#seen = new Set(all.filter((key) => key >= this.#floor));
    const shown = known === null ? fresh.slice(0, first) : fresh;
    const isMore = known !== null && fresh.length === limit;
    const isRelayChanged = relay !== this.#relay;
    this.#relay = relay;
    return [
      ...(isMore ? [{ at, type: 'more_outcomes' } as const] : []),
      ...shown.toReversed().map((item): Happening => ({ type: 'outcome', ...item })),
      ...(isRelayChanged ? [{ at, type: 'relay', state: relay } as const] : []),
    ];
  }
}

const keyOf = ({ deliveryId, at }: TailItem) => `${at} ${deliveryId}`;

/** Writes it on one line of the terminal, with a narrow one's topic cut first. */
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

const RELAY = {
  running: { style: 'green', word: '✓ relay', what: 'is running' },
  stalled: { style: 'red', word: '✗ relay', what: 'has stopped: events are saved, but not delivered' },
  never_run: { style: 'red', word: '✗ relay', what: 'has never run' },
} as const;

function wordsOf(happening: Happening): Words {
  if (happening.type === 'relay') return RELAY[happening.state];
  if (happening.type === 'more_outcomes')
    return {
      style: 'dim',
      word: '· more',
      what: `over ${PAGE} outcomes since the last look; the newest follow`,
    };
  const { outcome, deliveryId, topic, subscriber, attempts, maxAttempts, durationMs, lastError } = happening;
  const { text: word, style } = statePhrase(outcome);
  const error = lastError === null ? '' : failureText(lastError);
  const how = {
    delivered: durationMs === null ? '' : `after ${duration(durationMs)}`,
    failing: `attempt ${attemptsOf(attempts, maxAttempts)}${error && `: ${error}`}`,
    dead_lettered: error,
  }[outcome];
  return { style, word, what: `${deliveryId}  ${topic} → ${subscriber}  ${how}`.trimEnd() };
}
