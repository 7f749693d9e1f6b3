import type { BackfillPreview } from '../../lib/console/backfills/preview.ts';
import type { BackfillProgress } from '../../lib/console/backfills/read.ts';
import { lost, meanwhileWords, paceWords, warningsOf } from '../../lib/console/backfills/words.ts';
import type { Warning } from '../../lib/console/backfills/words.ts';
import { timeText } from '../../lib/console/kit/instants.ts';
import { backfilledPath } from '../../lib/console/kit/links.ts';
import { count, quantity } from '../../lib/console/kit/words.ts';
import type { Given } from '../arguments.ts';
import { writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { YES, confirm, requireConfirmable } from '../confirm.ts';
import { EXIT, Failure, misused } from '../failure.ts';
import { followBackfill } from '../follow-backfill.ts';
import { WAIT, waitLimitMs } from '../follow.ts';
import { writeOutcome } from '../held-delivery.ts';
import { REASON, requireReason } from '../reason.ts';
import { Unavailable } from '../refusals.ts';
import { namedIn, subscriptionsOf } from '../subscriptions.ts';
import type { Pane } from '../terminal.ts';
import { hang, wrapTo } from '../text.ts';
import { inZone } from '../times.ts';

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
  const { given, terminal, isJson, bus } = call;
  if (given.isSet('stop')) return await stop(call);
  const fields = await requestOf(call);
  const isDry = given.isSet('dry-run');
  if (!isDry) requireConfirmable(call, NOTHING, ', or --dry-run for a preview');
  const expected = given.wholeNumber('expected', 0, 1_000_000_000);
  const limitMs = waitLimitMs(given);
  await subscriptionsOf(call, fields);
  const { showBackfillPreview } = await import('../../lib/console/backfills/routes.ts');
  const { json, view } = await bus.ask(showBackfillPreview, { query: fields, named: NAMED });
  // The preview must be seen even where the answer goes to a program.
  const pane = isDry ? terminal.out : terminal.err;
  if (isDry && isJson) writeJson(call, json);
  else write(view, titleOf(view, given), pane);
  if (expected !== undefined && view.matched !== expected)
    throw new Failure(
      EXIT.failed,
      `${NOTHING.replace('.', '')}: ${count(view.matched)} are missing, not ${count(expected)}.`,
    );
  if (isDry) return EXIT.ok;
  if (view.matched > 0) {
    const action = view.matched === 1 ? 'Backfill it' : 'Backfill them';
    await confirm(call, { action, count: view.matched, nothing: NOTHING });
  }
  return await backfillPreviewed(view, call, given.isSet('wait') ? limitMs : null);
}

/** @throws Failure for an incomplete request. */
async function requestOf({ given }: Call) {
  const { subscriber, topic } = namedIn(given, EXAMPLE);
  const since = given.text('since');
  if (topic === null) throw misused('--topic is missing.', USAGE);
  if (since === undefined) throw misused('--since is missing.', USAGE);
  return { subscriber, topic, since, perMinute: given.wholeNumber('per-minute', 1, 100_000) };
}

/** @param limitMs how long to wait for the outcome; null does not wait. */
async function backfillPreviewed(
  { request, backfillId: previewed, matched }: BackfillPreview,
  call: Call,
  limitMs: number | null,
): Promise<number> {
  const { given, terminal, isJson, bus } = call;
  const body = { ...request, backfillId: previewed, reason: given.text('reason') };
  const { requestBackfill } = await import('../../lib/console/backfills/routes.ts');
  const send = () => bus.ask(requestBackfill, { body, named: NAMED });
  const { json, view } = await send().catch((error: unknown) => {
    // The backfill's id makes a repeated request safe.
    if (error instanceof Unavailable && error.exitCode === EXIT.unreachable) return send();
    throw error;
  });
  const { backfillId, written } = view;
  const isWaiting = limitMs !== null && backfillId !== null && matched > 0;
  if (isJson) {
    if (isWaiting) return await followBackfill(call, backfillId, limitMs);
    writeJson(call, json);
    return EXIT.ok;
  }
  if (matched === 0 || backfillId === null) return EXIT.ok;
  const { out } = terminal;
  const isAll = written >= matched;
  writeOutcome(
    call,
    true,
    isAll
      ? `Backfilled ${quantity(written, 'delivery')}.`
      : `The backfill is under way: ${count(written)} of ${count(matched)} written.`,
  );
  out.write(out.paint('dim', `  Progress: ${new URL(backfilledPath(backfillId), bus.url).href}`));
  if (!isAll)
    out.write(out.paint('dim', `  To stop it: npx postbud backfill --stop ${backfillId} --reason …`));
  return isWaiting ? await followBackfill(call, backfillId, limitMs) : EXIT.ok;
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** @throws Failure without a reason, or for an id that is none. */
async function stop(call: Call): Promise<number> {
  const { given, bus, isJson } = call;
  const backfillId = given.text('stop') ?? '';
  const other = ['topic', 'since', 'per-minute', 'expected', 'dry-run', 'wait'].find((name) =>
    given.isSet(name),
  );
  if (other !== undefined || given.positionals.length > 0)
    throw misused(`--stop names the backfill alone: leave out ${other ? `--${other}` : 'the subscriber'}.`);
  if (!UUID.test(backfillId))
    throw misused(
      `--stop: '${backfillId}' is not a backfill id.`,
      'The preview’s answer and npx postbud log have it, for example 019c7f40-11ac-7c2e-9d55-7b1f6a0c3d21.',
    );
  const reason = requireReason(given, `backfill --stop ${backfillId} --reason "the ledger can’t keep up"`);
  const { showBackfill, stopBackfillRoute } = await import('../../lib/console/backfills/routes.ts');
  const parameters = { backfillId };
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

function titleOf({ matched, topic, subscriber }: BackfillPreview, given: Given): string {
  const what = `${quantity(matched, 'delivery')} of ${topic} to ${subscriber}`;
  if (given.isSet('dry-run')) return `Would backfill ${what}.`;
  return given.isSet('yes') ? `About to backfill ${what}.` : `Backfill ${what}?`;
}

function write(view: BackfillPreview, title: string, pane: Pane): void {
  const { matched, topic, subscriber, oldestAt, newestAt, generatedAt: now, underWay } = view;
  const { paint, columns } = pane;
  const warn = ([fact, consequence]: Warning) =>
    pane.write(hang(`${paint('yellow', '!')} `, `${fact} ${consequence}`, columns));
  if (matched === 0) {
    const since = inZone(timeText(view.since, now));
    pane.write(
      wrapTo(
        columns,
        `Nothing to backfill: ${subscriber} already has every stored event of ${topic} since ${since}.`,
      ),
    );
    for (const warning of lost(view)) warn(warning);
    return;
  }
  pane.write(paint('bold', title));
  if (oldestAt !== null && newestAt !== null) {
    const [from, to] = [timeText(oldestAt, now), timeText(newestAt, now)];
    const when = from === to ? `at ${inZone(from)}` : `from ${from} to ${inZone(to)}`;
    pane.write(wrapTo(columns, `Recorded ${when}.`));
  }
  pane.write(wrapTo(columns, `${paceWords(view)}. ${meanwhileWords(view)}`));
  for (const warning of warningsOf(view)) warn(warning);
  if (underWay !== null)
    warn([
      `A backfill of this subscription is under way: ${underWay}.`,
      'The next one can start when it has ended.',
    ]);
}
