import { ago } from '../lib/operators/page/instants.ts';
import { count, counted, listed } from '../lib/operators/page/words.ts';
import type { PreviewedSubscription } from '../lib/operators/replays/preview.ts';
import { preview, replay as replayAnswer } from './answers.ts';
import type { Given } from './arguments.ts';
import { atMost, writeJson } from './command.ts';
import type { Call, Command } from './command.ts';
import { requireDeliveryId } from './dead-letter.ts';
import { EXIT, Failure, misused } from './failure.ts';
import { when } from './instants.ts';
import { Unavailable } from './refusals.ts';
import { failureText } from './states.ts';
import { table } from './table.ts';
import type { Pane } from './terminal.ts';
import { wrapTo } from './text.ts';

type Preview = (typeof preview)['_output'];

/** More than a screenful: a number typed is a number read. The console asks for it from the same number on. */
const TYPED_ABOVE = 100;

const PATH = '/platform/event-bus/replay';
const NAMED = { topic: 'topic', deliveryIds: '--delivery', expectedCount: '--expected' };

export const replay: Command = {
  name: 'replay',
  summary: 'has dead letters delivered again; shows first what that does',
  usage: [
    'replay <topic> --since <24h> [--subscriber <name>] [options]',
    'replay --delivery <deliveryId> [--delivery <deliveryId> …] [options]',
  ],
  notes: [
    'Shows first what would be replayed and to whom, then asks. Without a terminal it needs --yes.',
    'Replayed is what was shown, or nothing: where another number matches by then, it ends with 1.',
  ],
  options: {
    since: { value: '<24h>', help: 'what died within so long: a number and s, m, h, d or w' },
    until: { value: '<1h>', help: '…and longer ago than this, or before this instant in UTC' },
    subscriber: { value: '<name>', help: 'of this subscriber only' },
    group: { value: '<group>', help: 'of one error only, as dead-letters --json names it' },
    delivery: { value: '<deliveryId>', isList: true, help: 'this one; several times for several' },
    include: { value: 'all', help: 'also what was delivered: subscribers get it twice' },
    limit: { value: '<number>', help: 'only the oldest so many' },
    reason: { value: '<words>', help: 'why; kept in the operators’ log' },
    expected: { value: '<number>', help: 'only if exactly so many match' },
    'dry-run': { help: 'shows what it would do, and does nothing' },
    yes: { help: 'does not ask' },
  },
  examples: [
    ['replay payment.captured --since 24h', 'the dead letters of a day, once confirmed'],
    ['replay payment.captured --since 7d --subscriber ledger --dry-run', 'what that would do'],
    ['replay --delivery 12-345 --reason "ledger is back" --yes', 'one, from a script'],
  ],
  run,
};

async function run(call: Call): Promise<number> {
  const { given, terminal, isJson, bus } = call;
  const fields = requestOf(given);
  const isDry = given.isSet('dry-run');
  if (!isDry && !given.isSet('yes') && !terminal.isInteractive) {
    throw misused(
      'There is no terminal to ask on, so nothing was replayed.',
      'Add --yes to replay without being asked, or --dry-run to see what would be.',
    );
  }
  const expected = given.wholeNumber('expected', 0, 1_000_000_000);
  const { json, view } = await bus.ask({ path: PATH, answer: preview, query: fields, named: NAMED });
  // What is asked about must be seen even where the answer goes to a program.
  const pane = isDry ? terminal.out : terminal.err;
  if (isDry && isJson) writeJson(call, json);
  else write(view, titleOf(view, given), pane);
  if (expected !== undefined && view.matched !== expected) {
    const match = `${counted(view.matched, 'delivery')} ${view.matched === 1 ? 'matches' : 'match'}`;
    throw new Failure(EXIT.failed, `Nothing was replayed: ${match}, not ${count(expected)}.`);
  }
  if (isDry) return EXIT.ok;
  if (view.matched > 0 && !given.isSet('yes')) await confirm(view, call);
  return await replayPreviewed(view, call);
}

/** @throws Failure for a request that says too little, or two things at once. */
function requestOf(given: Given) {
  atMost(1, given);
  const [topic] = given.positionals;
  const deliveries = given.texts('delivery').flatMap((ids) => ids.split(','));
  for (const id of deliveries) requireDeliveryId(id);
  const deliveryIds = deliveries.join(',') || undefined;
  const include = given.text('include');
  const request = {
    topic,
    since: given.text('since'),
    until: given.text('until'),
    subscriber: given.text('subscriber'),
    group: given.text('group'),
    deliveryIds,
    include,
    limit: given.wholeNumber('limit', 1, 100_000),
  };
  if (include !== undefined && include !== 'all') throw misused('--include: write all, or leave it out');
  if (deliveryIds === undefined) {
    if (topic === undefined) throw misused('Which topic? Or name deliveries with --delivery.', USAGE);
    if (request.since === undefined) throw misused('Since when? Write --since 24h, for example.', USAGE);
  }
  return request;
}

const USAGE = 'For example: npx postbud replay payment.captured --since 24h';

async function confirm({ matched }: Preview, { terminal }: Call): Promise<void> {
  const isTyped = matched > TYPED_ABOVE;
  const question = isTyped
    ? `Type ${matched} to replay them: `
    : `Replay ${matched === 1 ? 'it' : 'them'}? [y/N] `;
  const answer = (await terminal.ask(`\n${question}`)).trim().toLowerCase();
  const isYes = isTyped ? answer.replaceAll(/[ ,.]/g, '') === String(matched) : /^(y|yes|j|ja)$/.test(answer);
  if (!isYes) throw new Failure(EXIT.failed, 'Nothing was replayed.');
}

async function replayPreviewed(view: Preview, call: Call): Promise<number> {
  const { given, terminal, isJson, bus } = call;
  const reason = given.text('reason');
  const body = { ...view.request, replayId: view.replayId, expectedCount: view.matched, reason };
  const send = () =>
    bus.ask({ path: PATH, answer: replayAnswer, body, named: NAMED, scope: 'event-bus:replay' });
  const { json, view: done } = await send().catch((error: unknown) => {
    // By its id the server knows whether it has replayed it already.
    if (error instanceof Unavailable && error.exitCode === EXIT.unreachable) return send();
    throw error;
  });
  if (isJson) {
    writeJson(call, json);
    return EXIT.ok;
  }
  const { replayed, matched, replayId } = done;
  if (matched === 0) return EXIT.ok;
  const { out } = terminal;
  const what = counted(replayed, view.isAll ? 'delivery' : 'dead letter');
  out.write(
    `\n${out.paint('green', '✓')} ${what} ${replayed === 1 ? 'is' : 'are'} on ${replayed === 1 ? 'its' : 'their'} way again.`,
  );
  if (replayed < matched) {
    const rest = matched - replayed;
    out.write(`  ${counted(rest, 'other', 'others')} had been replayed or pruned meanwhile.`);
  }
  if (replayId !== null) {
    const address = new URL(`/platform/event-bus/replays/${replayId}`, bus.url);
    out.write(out.paint('dim', `  What becomes of ${replayed === 1 ? 'it' : 'them'}: ${address.href}`));
  }
  return EXIT.ok;
}

function titleOf({ matched, isAll }: Preview, given: Given): string {
  const what = counted(matched, isAll ? 'delivery' : 'dead letter');
  if (given.isSet('dry-run')) return `Would replay ${what}.`;
  return given.isSet('yes') ? `About to replay ${what}.` : `Replay ${what}?`;
}

function write(view: Preview, title: string, pane: Pane): void {
  const { matched, isAll, subscriptions, generatedAt: now, endedFrom, endedTo, error } = view;
  const { paint, columns } = pane;
  if (matched === 0) {
    pane.write([nothingWords(view), ...leftOutWords(view)].join('\n'));
    return;
  }
  pane.write(paint('bold', title));
  pane.write(
    table(
      pane,
      [
        { title: '', align: 'right' },
        { title: 'topic', isFlexible: true },
        { title: 'subscriber' },
        { title: 'last delivered', leftOut: 'late' },
      ],
      subscriptions.map((one) => [
        count(one.count),
        one.topic,
        one.subscriber,
        one.lastDeliveredAt === null ? 'never' : ago(one.lastDeliveredAt, now),
      ]),
    ),
  );
  if (endedFrom !== null && endedTo !== null) {
    const ended = isAll ? 'Ended' : 'Died';
    const [from, to] = [when(endedFrom, now), when(endedTo, now)];
    pane.write(
      `\n${ended} ${from === to ? `at ${from}` : `from ${from} to ${to}`}.${error ? ` Error: ${failureText(error)}.` : ''}`,
    );
  }
  pane.write(
    wrapTo(columns, `Same event ids, attempts start again at 1, oldest first.${othersWords(subscriptions)}`),
  );
  for (const warning of warnings(view)) pane.write(wrapTo(columns, `${paint('yellow', '!')} ${warning}`));
}

function nothingWords({ topic, isAll }: Preview): string {
  if (topic === null) return 'Nothing to replay: none of them is a dead letter.';
  return `Nothing to replay: no ${isAll ? 'ended delivery' : 'dead letter'} of ${topic} matches.`;
}

function othersWords(subscriptions: readonly PreviewedSubscription[]): string {
  const [first] = subscriptions;
  if (!first || subscriptions.length > 1 || first.others === 0) return '';
  return first.others === 1
    ? ' The topic’s other subscriber gets nothing.'
    : ` The topic’s ${first.others} other subscribers get nothing.`;
}

function leftOutWords({ leftOut }: Preview): readonly string[] {
  return leftOut.map(({ topic, subscriber, count: number }) => {
    const what = `${counted(number, 'delivery')} to ${subscriber} ${number === 1 ? 'is' : 'are'} left out`;
    return `${what}: this release’s catalog does not list it for ${topic}.`;
  });
}

function warnings(view: Preview): readonly string[] {
  const { isAll, subscriptions, generatedAt: now } = view;
  const of = (isSuch: (one: PreviewedSubscription) => boolean) => [
    ...new Set(subscriptions.filter(isSuch).map(({ subscriber }) => subscriber)),
  ];
  const told = (names: readonly string[], one: string, several: string) =>
    names.length === 0 ? [] : [`${listed(names)} ${names.length === 1 ? one : several}`];
  const failing = subscriptions.filter(
    ({ isStillFailing, attached, paused }) => isStillFailing && attached && !paused,
  );
  return [
    ...leftOutWords(view),
    ...(isAll
      ? [
          'What was delivered is sent again too: subscribers that do not look at the event id do their work twice.',
        ]
      : []),
    ...told(
      of(({ attached }) => !attached),
      'is not attached: what is replayed waits until it has a handler or an endpoint.',
      'are not attached: what is replayed waits until they have a handler or an endpoint.',
    ),
    ...told(
      of(({ paused }) => paused),
      'is paused: what is replayed waits until someone resumes it.',
      'are paused: what is replayed waits until someone resumes them.',
    ),
    ...failing.map(({ subscriber, lastError, lastFailedAt }) => {
      const last = lastError && lastFailedAt ? ` (${failureText(lastError)}, ${ago(lastFailedAt, now)})` : '';
      return `${subscriber} is still failing${last}: what is replayed will probably end here again.`;
    }),
  ];
}
