import { statesOf } from '../../lib/console/backfills/follow.ts';
import type { BackfillPreview } from '../../lib/console/backfills/preview.ts';
import type { BackfillProgress } from '../../lib/console/backfills/read.ts';
import { lost, meanwhileWords, paceWords, warningsOf } from '../../lib/console/backfills/words.ts';
import { timeText } from '../../lib/console/kit/instants.ts';
import { backfilledPath } from '../../lib/console/kit/links.ts';
import { count, quantity } from '../../lib/console/kit/words.ts';
import type { Given } from '../arguments.ts';
import { writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { YES } from '../confirm.ts';
import { EXIT, misused } from '../failure.ts';
import { WAIT } from '../follow.ts';
import { carryOut, confirmNumber, stopOf, titleOf, writeWarnings } from '../operation.ts';
import { writeOutcome } from '../outcome.ts';
import { REASON } from '../reason.ts';
import { namedIn, subscriptionsOf } from '../subscriptions.ts';
import type { Pane } from '../terminal.ts';
import { wrapTo } from '../text.ts';
import { inZone, spanWords } from '../times.ts';

const NOTHING = 'Nothing was written.';
const EXAMPLE = 'backfill ledger --topic payment.captured --since 30d';
const USAGE = `For example: npx postbud ${EXAMPLE}`;

const NAMED = { perMinute: '--per-minute', expectedCount: '--expected' };

export const command: Command = {
  name: 'backfill',
  summary: 'hand a new subscriber the older events of a topic',
  usage: [
    'backfill <subscriber> --topic <topic> --since <30d> [--wait] [options]',
    'backfill --stop <backfillId> --reason <text>',
  ],
  notes: [
    'Writes the deliveries that retained events lack for the subscription, once, in the order of creation. Its newer events wait meanwhile, and producers go on.',
    'First shows a preview, then asks for confirmation. Without a terminal it needs --yes. If the number has changed since the preview, it writes nothing and exits with 1.',
  ],
  options: {
    topic: { value: '<topic>', help: 'the topic that the subscriber is new on' },
    since: {
      value: '<30d>',
      help: 'events recorded within this time, such as 30d or 12h, or since an instant such as 2026-11-01T08:00:00Z',
    },
    'per-minute': { value: '<number>', help: 'write at most this many a minute (default: all at once)' },
    ...REASON,
    expected: { value: '<number>', help: 'backfill only if exactly this many are missing' },
    'dry-run': { help: 'show the preview and stop' },
    stop: { value: '<backfillId>', help: 'stop a backfill; what it has not written stays unwritten' },
    ...YES,
    ...WAIT,
  },
  examples: [
    [EXAMPLE, 'the last 30 days, after confirmation'],
    [`${EXAMPLE} --dry-run`, 'a preview only'],
    [`${EXAMPLE} --per-minute 1000 --wait`, 'paced, and wait until all are delivered'],
    ['backfill --stop 019c7f40-11ac-7c2e-9d55-7b1f6a0c3d21 --reason "too fast"', 'write no more'],
  ],
  run,
};

async function run(call: Call): Promise<number> {
  const { given, bus } = call;
  if (given.isSet('stop')) return await stop(call);
  const fields = requestOf(call);
  const { requestBackfill, showBackfill, showBackfillPreview } =
    await import('../../lib/console/backfills/routes.ts');
  return await carryOut(call, {
    nothing: NOTHING,
    async preview() {
      await subscriptionsOf(call, fields);
      return await bus.ask(showBackfillPreview, { query: fields, named: NAMED });
    },
    draw: (view, pane) => write(view, given, pane),
    matched: ({ matched }) => [matched, `${count(matched)} are missing`],
    isEmpty: ({ matched, underWay }) => matched === 0 && underWay === null,
    confirm: ({ matched }) => confirmNumber(call, 'Backfill', matched, NOTHING),
    begin({ request, backfillId }) {
      const body = { ...request, backfillId, reason: given.text('reason') };
      return bus.ask(requestBackfill, { body, named: NAMED });
    },
    tell: (begun, { matched }) => tell(call, begun, matched),
    followed: {
      look: ({ backfillId }, { matched }) =>
        backfillId === null || matched === 0
          ? null
          : () => bus.ask(showBackfill, { parameters: { backfillId } }),
      isSettled,
      words: progressWords,
      ends: (now) => ({
        isGood: isSettled(now) && now.stopped === null && now.progress.deadLettered === 0,
        words: endWords(now),
      }),
    },
  });
}

/** @throws Failure for an incomplete request. */
function requestOf({ given }: Call) {
  const { subscriber, topic } = namedIn(given, EXAMPLE);
  const since = given.text('since');
  if (topic === null) throw misused('--topic is missing.', USAGE);
  if (since === undefined) throw misused('--since is missing.', USAGE);
  return { subscriber, topic, since, perMinute: given.wholeNumber('per-minute', 1, 100_000) };
}

function tell(
  call: Call,
  { backfillId, written }: { readonly backfillId: string | null; readonly written: number },
  matched: number,
): void {
  if (matched === 0 || backfillId === null) return;
  const { out } = call.terminal;
  const isAll = written >= matched;
  writeOutcome(
    call,
    true,
    isAll
      ? `Backfilled ${quantity(written, 'delivery')}.`
      : `The backfill is under way: ${count(written)} of ${count(matched)} written.`,
  );
  out.write(out.paint('dim', `  Progress: ${new URL(backfilledPath(backfillId), call.bus.url).href}`));
  if (!isAll)
    out.write(out.paint('dim', `  To stop it: npx postbud backfill --stop ${backfillId} --reason …`));
}

/** @throws Failure without a reason, or with options of another backfill. */
async function stop(call: Call): Promise<number> {
  const { bus, isJson } = call;
  const { id, reason } = stopOf(call, {
    what: 'backfill',
    begins: ['subscriber', 'topic', 'since', 'per-minute', 'expected', 'dry-run', 'wait'],
    example: 'the ledger can’t keep up',
  });
  const { showBackfill, stopBackfillRoute } = await import('../../lib/console/backfills/routes.ts');
  const parameters = { backfillId: id };
  const before = await bus.ask(showBackfill, { parameters });
  const { json, view } = await bus.ask(stopBackfillRoute, { parameters, body: { reason } });
  if (isJson) writeJson(call, json);
  else writeOutcome(call, true, before.view.endedAt === null ? stoppedWords(view) : endedWords(view));
  return EXIT.ok;
}

function stoppedWords({ matched, written }: BackfillProgress): string {
  return `Stopped: ${count(written)} of ${count(matched)} written. The rest stays unwritten.`;
}

function endedWords({ endedAt, generatedAt, written, matched }: BackfillProgress): string {
  const at = inZone(timeText(endedAt ?? generatedAt, generatedAt));
  return `It had ended already, at ${at}: ${count(written)} of ${count(matched)} written.`;
}

function write(view: BackfillPreview, given: Given, pane: Pane): void {
  const { matched, topic, subscriber, oldestAt, newestAt, generatedAt: now, underWay } = view;
  const { paint, columns } = pane;
  if (matched === 0) {
    const nothing = `Nothing to backfill: ${subscriber} already has every stored event of ${topic}`;
    pane.write(wrapTo(columns, `${nothing} since ${inZone(timeText(view.since, now))}.`));
    writeWarnings(pane, lost(view));
    return;
  }
  const what = `${quantity(matched, 'delivery')} of ${topic} to ${subscriber}`;
  pane.write(paint('bold', titleOf(given, 'backfill', what)));
  if (oldestAt !== null && newestAt !== null)
    pane.write(wrapTo(columns, `Recorded ${spanWords(oldestAt, newestAt, now)}.`));
  pane.write(wrapTo(columns, `${paceWords(view)}. ${meanwhileWords(view)}`));
  writeWarnings(pane, [
    ...warningsOf(view),
    underWay !== null && [
      `A backfill of this subscription is under way: ${underWay}.`,
      'The next one can start when it has ended.',
    ],
  ]);
}

function isSettled({ endedAt, progress: { pending, failing } }: BackfillProgress): boolean {
  return endedAt !== null && pending + failing === 0;
}

function endWords(view: BackfillProgress): string {
  const at = inZone(timeText(view.generatedAt, view.generatedAt));
  return isSettled(view)
    ? `${progressWords(view)}.`
    : `${progressWords(view)} at ${at}, when the time was up.`;
}

function progressWords(view: BackfillProgress): string {
  const { matched, written, stopped } = view;
  const by = stopped === null ? '' : `stopped by ${stopped.by}, `;
  return `${by}${count(written)} of ${count(matched)} written, ${statesOf(view)}`;
}
