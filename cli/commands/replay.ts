import { earlierPhrase } from '../../lib/console/kit/earlier-words.ts';
import { ago, duration, timeText } from '../../lib/console/kit/instants.ts';
import { ALL_TIME } from '../../lib/console/kit/links.ts';
import { hasFilter } from '../../lib/console/kit/filter.ts';
import { failureText } from '../../lib/console/kit/states.ts';
import { count, numbers, quantity } from '../../lib/console/kit/words.ts';
import { undelivered } from '../../lib/console/replays/follow.ts';
import type { PreviewedSubscription, ReplayPreview } from '../../lib/console/replays/preview.ts';
import type { ReplayProgress } from '../../lib/console/replays/read.ts';
import { leftOutWarnings, nothingWords, warningsOf } from '../../lib/console/replays/words.ts';
import { SECOND } from '../../lib/platform/time.ts';
import type { Given } from '../arguments.ts';
import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { YES } from '../confirm.ts';
import { requireDeliveryId } from '../delivery-id.ts';
import { EXIT, Failure, misused } from '../failure.ts';
import { WAIT } from '../follow.ts';
import { requireIncidentId } from '../incident-id.ts';
import { carryOut, confirmNumber, stopOf, titleOf, warningText, writeWarnings } from '../operation.ts';
import { writeOutcome } from '../outcome.ts';
import { table } from '../table.ts';
import type { Pane } from '../terminal.ts';
import { wrapTo } from '../text.ts';
import { inZone, spanWords } from '../times.ts';

const NOTHING = 'Nothing was replayed.';

const NAMED = {
  q: '--search',
  deliveryIds: '--delivery',
  expectedCount: '--expected',
  perMinute: '--per-minute',
};

export const command: Command = {
  name: 'replay',
  summary: 'deliver dead letters again, after a preview',
  usage: [
    'replay [<topic>] --since <24h> [--subscriber <name>] [--search <words>] [--wait] [options]',
    'replay --incident <incidentId> [--wait] [options]',
    'replay --delivery <deliveryId> [--delivery <deliveryId> …] [options]',
    'replay --stop <replayId> --reason <text>',
  ],
  notes: [
    'First shows a preview, then asks for confirmation. Without a terminal it needs --yes.',
    'Without a topic it takes the dead letters of all topics that match --subscriber, --search or --group, or that died between --since and --until.',
    'Replays exactly what the preview showed. If the number of matches has changed since, it replays nothing and exits with 1.',
    'With --per-minute the server puts the deliveries back at that pace, the oldest first. --stop ends it early: the rest stays as it is.',
  ],
  options: {
    since: { value: '<24h>', help: 'dead-lettered within this time, such as 90m, 24h or 7d' },
    until: {
      value: '<1h>',
      help: 'dead-lettered before this time ago, or before an instant such as 2026-11-22T08:00:00Z',
    },
    subscriber: { value: '<name>', help: 'only this subscriber' },
    search: { value: '<words>', help: 'only errors that contain these words' },
    group: {
      value: '<group>',
      isList: true,
      help: 'only one group of equal errors, by its id in dead-letters --json; can be repeated',
    },
    incident: {
      value: '<incidentId>',
      help: 'the dead letters of one incident, instead of a topic and --since',
    },
    delivery: { value: '<deliveryId>', isList: true, help: 'this delivery; can be repeated' },
    include: {
      value: '<all|dismissed>',
      help: 'all: delivered events too, which subscribers receive twice; dismissed: only dismissed dead letters',
    },
    limit: { value: '<number>', help: 'replay at most this many, oldest first' },
    'per-minute': { value: '<number>', help: 'about this many a minute; by default all at once' },
    stop: { value: '<replayId>', help: 'stop a replay that still puts deliveries back' },
    reason: { value: '<text>', help: 'recorded in the operator log' },
    expected: { value: '<number>', help: 'replay only if exactly this many match' },
    'dry-run': { help: 'show the preview and stop' },
    ...YES,
    ...WAIT,
  },
  examples: [
    ['replay payment.captured --since 24h', 'the dead letters of the last 24 hours, after confirmation'],
    ['replay payment.captured --since 7d --subscriber ledger --dry-run', 'a preview only'],
    ['replay payment.captured --since 24h --wait', 'and wait until all are delivered, or have failed again'],
    [
      'replay payment.captured --since 7d --per-minute 1000 --wait',
      'a thousand a minute, until the last is delivered',
    ],
    ['replay --subscriber ledger --since 24h', 'of all topics, to one subscriber'],
    [
      'replay --delivery 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.accounting --reason "ledger is back" --yes',
      'one delivery, from a script',
    ],
  ],
  run,
};

async function run(call: Call): Promise<number> {
  const { given, bus } = call;
  if (given.isSet('stop')) return await stopReplay(call);
  const perMinute = given.wholeNumber('per-minute', 1, 1_000_000);
  const fields = { ...(await requestOf(call)), perMinute };
  const { requestReplay, showPreview, showReplay } = await import('../../lib/console/replays/routes.ts');
  return await carryOut(call, {
    nothing: NOTHING,
    preview: () => bus.ask(showPreview, { query: fields, named: NAMED }),
    draw: (view, pane) => write(view, given, pane),
    matched: ({ matched }) => [
      matched,
      `${quantity(matched, 'delivery')} ${matched === 1 ? 'matches' : 'match'}`,
    ],
    // What is left out is refused, with the reason.
    isEmpty: ({ matched, leftOut }) => matched === 0 && leftOut.length === 0,
    confirm: ({ matched }) => confirmNumber(call, 'Replay', matched, NOTHING),
    begin({ request, replayId, matched }) {
      const body = { ...request, replayId, expectedCount: matched, reason: given.text('reason') };
      return bus.ask(requestReplay, { body, named: NAMED });
    },
    tell: (done, preview) => tell(call, done, preview),
    followed: {
      look: ({ replayId, matched, replayed }) =>
        // Of a paced one, the cron may be about to put back the first.
        replayId === null || matched === 0 || (replayed === 0 && perMinute === undefined)
          ? null
          : () => bus.ask(showReplay, { parameters: { replayId } }),
      isSettled: (now) => openOf(now) === 0,
      words: progressWords,
      ends: (now) => ({
        isGood: openOf(now) + now.progress.deadLettered === 0 && now.pace?.stopped == null,
        words: endWords(now),
      }),
    },
  });
}

/** @throws Failure without a reason, or with options of another replay. */
async function stopReplay(call: Call): Promise<number> {
  const { id, reason } = stopOf(call, {
    what: 'replay',
    begins: ['topic', ...OF_A_REQUEST],
    example: 'ledger is slow again',
  });
  const { stopPacedReplay } = await import('../../lib/console/replays/routes.ts');
  const { json, view } = await call.bus.ask(stopPacedReplay, {
    parameters: { replayId: id },
    body: { reason },
  });
  const left = view.pace?.left ?? 0;
  const rest = `${quantity(left, 'delivery')} ${left === 1 ? 'stays as it is' : 'stay as they are'}.`;
  if (call.isJson) writeJson(call, json);
  else writeOutcome(call, true, `Stopped. ${count(view.replayed)} put back, ${rest}`);
  return EXIT.ok;
}

const OF_A_REQUEST = [
  'since',
  'until',
  'subscriber',
  'search',
  'group',
  'incident',
  'delivery',
  'include',
  'limit',
  'per-minute',
  'expected',
  'dry-run',
  'wait',
];

/** @throws Failure for an incomplete or contradictory request. */
async function requestOf(call: Call) {
  const { given } = call;
  atMost(1, given);
  const incident = given.text('incident');
  if (incident !== undefined) return await requestOfIncident(call, incident);
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
    group: given.texts('group').join(',') || undefined,
    q: given.text('search'),
    deliveryIds,
    include,
    limit: given.wholeNumber('limit', 1, 100_000),
  };
  if (include !== undefined && include !== 'all' && include !== 'dismissed')
    throw misused(
      `--include: '${include}' is not a choice. Write --include all or --include dismissed, or leave it out.`,
    );
  if (deliveryIds === undefined) {
    if (topic === undefined && (include !== undefined || !hasFilter(request)))
      throw misused(
        include === undefined
          ? 'The topic is missing; or use --subscriber, --search, --group, --until or --delivery.'
          : `--include ${include} needs a topic, or --delivery.`,
        USAGE,
      );
    if (request.since === undefined) throw misused('--since is missing.', USAGE);
  }
  return request;
}

/** @throws Failure for an unknown incident, or for anything that selects other deliveries. */
async function requestOfIncident({ given, bus }: Call, incident: string) {
  requireIncidentId(incident);
  const other = ['since', 'until', 'subscriber', 'search', 'group', 'delivery', 'include'].find((name) =>
    given.isSet(name),
  );
  if (other !== undefined || given.positionals.length > 0)
    throw misused(
      `--incident selects the dead letters alone: leave out ${other ? `--${other}` : 'the topic'}.`,
    );
  const { showIncident } = await import('../../lib/console/incidents/views.ts');
  const { view } = await bus.ask(showIncident.route, { parameters: { incidentId: incident } });
  const { topic, subscriber } = view;
  if (topic === null)
    throw new Failure(
      EXIT.failed,
      `Nothing to replay: what waits follows when ${subscriber} answers again.`,
      `To probe it now: npx postbud retry ${subscriber}`,
    );
  return { topic, subscriber, incident, since: ALL_TIME, limit: given.wholeNumber('limit', 1, 100_000) };
}

const USAGE = 'For example: npx postbud replay payment.captured --since 24h';

function tell({ terminal: { out }, bus }: Call, done: ReplayDone, preview: ReplayPreview): void {
  const { replayed, matched, replayId } = done;
  if (matched === 0) return;
  const what = preview.isAll ? 'delivery' : 'dead letter';
  const { perMinute } = preview.request;
  const isPaced = perMinute !== undefined;
  const outcome = isPaced
    ? `Replaying ${quantity(matched, what)}, ${count(perMinute)} a minute${timeWords(preview)}.`
    : `Replayed ${quantity(replayed, what)}.`;
  out.write(`\n${out.paint('green', '✓')} ${outcome}`);
  if (replayed < matched && !isPaced) {
    const rest = matched - replayed;
    out.write(
      `  ${quantity(rest, 'other', 'others')} ${rest === 1 ? 'was' : 'were'} replayed or pruned in the meantime.`,
    );
  }
  if (replayId === null) return;
  const address = new URL(`/platform/event-bus/replays/${replayId}`, bus.url);
  out.write(out.paint('dim', `  Outcome: ${address.href}`));
}

interface ReplayDone {
  readonly replayId: string | null;
  readonly matched: number;
  readonly replayed: number;
}

/** `, about 1 h 40 min` */
function timeWords({ estimatedSeconds }: ReplayPreview): string {
  return estimatedSeconds === null ? '' : `, about ${duration(estimatedSeconds * SECOND)}`;
}

function write(view: ReplayPreview, given: Given, pane: Pane): void {
  const { matched, isAll, subscriptions, leftOut, generatedAt: now, endedFrom, endedTo, error } = view;
  const { paint, columns } = pane;
  if (matched === 0) {
    const words = nothingWords(view);
    const nothing = `Nothing to replay: ${words.charAt(0).toLowerCase()}${words.slice(1)}`;
    const first = view.earlier === null ? [] : [earlierPhrase(view.earlier, now).text];
    const rest = leftOutWarnings(leftOut).map(warningText);
    pane.write(wrapTo(columns, [nothing, ...first, ...rest].join('\n')));
    return;
  }
  const what = quantity(matched, isAll ? 'delivery' : 'dead letter');
  pane.write(paint('bold', titleOf(given, 'replay', what)));
  pane.write(
    table(
      pane,
      [
        { title: '', align: 'right' },
        { title: 'topic', isCut: true },
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
    const ended = isAll ? 'Ended' : 'Dead-lettered';
    const why = error ? ` Error: ${failureText(error)}.` : '';
    pane.write(wrapTo(columns, `\n${ended} ${spanWords(endedFrom, endedTo, now)}.${why}`));
  }
  pane.write(
    wrapTo(
      columns,
      `${paceWords(view)}Event ids stay the same, attempts restart at 1, the oldest goes first.${othersWords(subscriptions)}`,
    ),
  );
  writeWarnings(pane, warningsOf(view));
}

function paceWords(view: ReplayPreview): string {
  const { perMinute } = view.request;
  return perMinute === undefined ? '' : `${count(perMinute)} a minute${timeWords(view)}. `;
}

function othersWords(subscriptions: readonly PreviewedSubscription[]): string {
  const [first] = subscriptions;
  if (!first || subscriptions.length > 1 || first.others === 0) return '';
  return first.others === 1
    ? ' The topic’s other subscriber receives nothing.'
    : ` The topic’s ${first.others} other subscribers receive nothing.`;
}

/** Deliveries that are not settled, or not put back yet. */
function openOf({ progress: { pending, failing }, pace }: ReplayProgress): number {
  return pending + failing + leftOf(pace);
}

const leftOf = (pace: ReplayProgress['pace']) => (pace?.endedAt === null ? pace.left : 0);

/** `7 of 7 delivered at 00:41:10 Europe/Oslo.` */
function endWords(view: ReplayProgress): string {
  const { lastDeliveredAt, generatedAt: now } = view;
  if (openOf(view) > 0)
    return `${progressWords(view)} at ${inZone(timeText(now, now))}, when the time was up.`;
  return `${progressWords(view)} at ${inZone(timeText(lastDeliveredAt ?? now, now))}.`;
}

function progressWords(view: ReplayProgress): string {
  const { replayed, progress, pace } = view;
  const rest = numbers([
    [leftOf(pace), 'left to put back'],
    [pace?.stopped ? pace.left : 0, 'not put back, because the replay was stopped'],
  ]);
  const done = `${count(progress.delivered)} of ${count(replayed)} delivered`;
  return [done, ...undelivered(view), ...rest].join(', ');
}
