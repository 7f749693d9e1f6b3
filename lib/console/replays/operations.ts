import * as z from 'zod';

import { stopReplay } from '../../bus/deliveries/operations/paced-replay.ts';
import { replayRequest } from '../kit/replay-request.ts';
import type { ParsedReplayRequest } from '../kit/replay-request.ts';
import { replay } from '../../bus/deliveries/operations/replay.ts';
import type { Replay } from '../../bus/deliveries/operations/replay.ts';
import { CountChanged, requireListed } from '../../bus/deliveries/refusals.ts';
import { Problem } from '../../platform/http/problem.ts';
import { orEarlier } from '../kit/earlier.ts';
import { followedPath } from '../kit/following.ts';
import { knownIn, requireKnownSubscriber, requireKnownTopic } from '../kit/known-names.ts';
import { incidentPath, replayedPath, replayPath } from '../kit/links.ts';
import { operation } from '../kit/operation.ts';
import { showRoute, stopRoute } from '../kit/operation-routes.ts';
import type { Begun } from '../kit/operation-routes.ts';
import { NO_NAMES } from '../kit/operator-names.ts';
import type { Bus } from '../kit/route.ts';
import { quantity } from '../kit/words.ts';
import { BEGUN, SHOWN } from './examples.ts';
import { isUnderWay, replayWords } from './follow.ts';
import { REPLAY, replayPage } from './page.ts';
import { nounOf, replayPlan } from './plan.ts';
import { dryRun, previewReplay, replayed, replayPreview } from './preview.ts';
import type { DryRun, ReplayPreview } from './preview.ts';
import { readReplay, replayProgress } from './read.ts';
import type { ReplayProgress } from './read.ts';
import { listReplays } from './routes.ts';
import { emptyWords } from './words.ts';

const FOLLOWED: Begun<ReplayProgress> = {
  kind: REPLAY,
  answer: replayProgress,
  read: async (bus, replayId) => await readReplay(await bus.database(), replayId),
  nobody: 'no-such-replay',
};

const showReplay = showRoute(FOLLOWED, 'See one replay and the states of its deliveries now', replayPage);

const stopPacedReplay = stopRoute(FOLLOWED, {
  summary: 'Stop a paced replay',
  description:
    'What it has not put back stays as it is, and can be replayed later. The operator, the time and the reason are recorded.',
  problems: ['replay_ended'],
  reason: 'The ledger is slow.',
  async stop(bus, replayId, by, reason) {
    const done = await stopReplay(await bus.database(), { replayId, by, reason });
    if (done === 'ended') throw new Problem('replay_ended');
  },
});

export const replaying = operation({
  verb: 'replay',
  section: 'dead-letters',
  path: replayPath({}),
  body: replayRequest,
  preview: z.union([replayPreview, dryRun]),
  answer: z
    .union([replayed, dryRun])
    .meta({ description: 'The replay; for a dry run, what it would have done.' }),
  shown: {
    id: 'previewReplay',
    summary: 'Preview a replay',
    problems: ['validation_failed'],
    examples: SHOWN,
  },
  begun: {
    id: 'replay',
    summary: 'Deliver dead letters, or everything, again',
    description:
      'Returns deliveries to pending, with fresh attempts. They keep their events, their places and their histories. The operator, the time, the reason and the request are recorded.',
    links: {
      progress: {
        operationId: 'readReplay',
        description: 'The states of its deliveries now.',
        parameters: { replayId: '$response.body#/replayId' },
      },
    },
    problems: ['not_confirmed', 'count_changed', 'no_such_subscription', 'replay_refused'],
    examples: BEGUN,
  },
  find: async ({ bus, body }) =>
    body.dryRun ? await orEarlier(await bus.database(), body, tried(bus, body)) : await preview(bus, body),
  act: async ({ bus, body, operator }) =>
    await orEarlier(await bus.database(), body, begun(bus, body, operator.subject)),
  says: replayPlan,
  reason: ['ledger is back after INC-4411'],
  // The page of an incident follows its replay.
  leads: ({ replayId }, { incident }) =>
    incident === undefined
      ? replayedPath(replayId)
      : followedPath(incidentPath(incident), 'replay', { replayId }),
  followed: {
    route: showReplay,
    pathOf: replayedPath,
    idOf: ({ replayId, matched }) => (matched === 0 ? null : replayId),
    says: (now) => {
      const { progress, pace } = now;
      return {
        words: replayWords(now, NO_NAMES),
        isUnderWay: isUnderWay(now),
        isOver: progress.pending + progress.failing === 0 && !isUnderWay(now),
        isGood: progress.deadLettered === 0 && !pace?.stopped,
      };
    },
    stop: {
      route: stopPacedReplay,
      help: 'stop a replay that still puts deliveries back',
      example: 'ledger is slow again',
    },
  },
  command: {
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
    examples: [
      ['replay payment.captured --since 24h', 'the dead letters of the last 24 hours, after confirmation'],
      ['replay payment.captured --since 7d --subscriber ledger --dry-run', 'a preview only'],
      [
        'replay payment.captured --since 24h --wait',
        'and wait until all are delivered, or have failed again',
      ],
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
    options: {
      since: { value: '<24h>', help: 'dead-lettered within this time, such as 90m, 24h or 7d' },
      until: {
        value: '<1h>',
        help: 'dead-lettered before this time ago, or before an instant such as 2026-11-22T08:00:00Z',
      },
      subscriber: { value: '<name>', help: 'only this subscriber' },
      q: { name: 'search', value: '<words>', help: 'only errors that contain these words' },
      group: {
        value: '<group>',
        isList: true,
        help: 'only one group of equal errors, by its id in dead-letters --json; can be repeated',
      },
      incident: {
        value: '<incidentId>',
        help: 'the dead letters of one incident, instead of a topic and --since',
      },
      deliveryIds: {
        name: 'delivery',
        value: '<deliveryId>',
        isList: true,
        help: 'this delivery; can be repeated',
      },
      include: {
        value: '<all|dismissed>',
        help: 'all: delivered events too, which subscribers receive twice; dismissed: only dismissed dead letters',
      },
      limit: { value: '<number>', range: [1, 100_000], help: 'replay at most this many, oldest first' },
      perMinute: {
        name: 'per-minute',
        value: '<number>',
        range: [1, 1_000_000],
        help: 'about this many a minute; by default all at once',
      },
    },
    takes: [['topic', null]],
    nothing: 'Nothing was replayed.',
    example: 'replay payment.captured --since 24h',
    isReasonNeeded: false,
    counted: (matched) => `${quantity(matched, 'delivery')} ${matched === 1 ? 'matches' : 'match'}`,
    done({ matched, replayed: done }, { what, pace, request }) {
      if (pace !== undefined) return { words: `Replaying ${what}, ${pace}.`, isUnderWay: true };
      const rest = matched - done;
      return {
        words: `Replayed ${quantity(done, nounOf(request))}.`,
        ...(rest > 0 && {
          next: `${quantity(rest, 'other', 'others')} ${rest === 1 ? 'was' : 'were'} replayed or pruned in the meantime.`,
        }),
      };
    },
  },
});

export const replayRoutes = replaying.routes;
export const logRoutes = [listReplays, showReplay, stopPacedReplay];

async function preview(bus: Bus, request: ParsedReplayRequest): Promise<ReplayPreview> {
  return await previewReplay(await knownIn(bus, request), bus.subscribers(), request);
}

/** @throws as a replay, for a number that does not match and for what the catalog does not list. */
async function tried(bus: Bus, request: ParsedReplayRequest): Promise<DryRun> {
  const view = await preview(bus, request);
  requireListed(request);
  const { since = null, expectedCount = view.matched } = request;
  if (view.matched !== expectedCount) throw new CountChanged(expectedCount, view.matched);
  return { ...view, replayId: null, since, replayed: 0 };
}

/** A replay that was carried out, and where nothing matched why. */
type Done = Replay & Pick<z.output<typeof replayed>, 'why'>;

async function begun(bus: Bus, request: ParsedReplayRequest, by: string): Promise<Done> {
  const db = await bus.database();
  await requireKnownTopic(db, request.topic);
  // With a topic, the catalog decides.
  if (request.topic === undefined) await requireKnownSubscriber(db, request.subscriber);
  const done = await replay(db, request, by, undefined, bus.subscribers());
  if (done.matched > 0) return done;
  const why = emptyWords(await previewReplay(db, bus.subscribers(), request));
  return why === null ? done : { ...done, why };
}
