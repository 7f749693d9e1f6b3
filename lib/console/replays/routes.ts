import { v7 as uuidv7 } from 'uuid';
import * as z from 'zod';

import { stopReplay } from '../../bus/deliveries/operations/paced-replay.ts';
import { NO_SINCE, replayRequest } from '../kit/replay-request.ts';
import type { ParsedReplayRequest } from '../kit/replay-request.ts';
import { replay } from '../../bus/deliveries/operations/replay.ts';
import type { Replay } from '../../bus/deliveries/operations/replay.ts';
import { CountChanged, requireListed } from '../../bus/deliveries/refusals.ts';
import { answered, invalid, refused } from '../../platform/http/operation.ts';
import { Problem } from '../../platform/http/problem.ts';
import { readConfirmedForm } from '../kit/confirmed-form.ts';
import { orEarlier } from '../kit/earlier.ts';
import { followedPath } from '../kit/following.ts';
import { requireKnownSubscriber, requireKnownTopic } from '../kit/known-names.ts';
import { HOME, incidentPath, replayedPath } from '../kit/links.ts';
import { showRoute, stopRoute } from '../kit/operation-routes.ts';
import type { Begun } from '../kit/operation-routes.ts';
import { operatorRoute } from '../kit/route.ts';
import type { Bus } from '../kit/route.ts';
import { logPage } from './log-page.ts';
import { REPLAY, replayPage } from './page.ts';
import { previewPage } from './preview-page.ts';
import { dryRun, previewReplay, replayed, replayForm, replayPreview } from './preview.ts';
import type { DryRun, ReplayPreview } from './preview.ts';
import { emptyWords } from './words.ts';
import { logQuery, operatorLog, readOperatorLog, readReplay, replayProgress } from './read.ts';
import type { ReplayProgress } from './read.ts';

const PREVIEW = {
  generatedAt: '2026-02-21T09:31:00.000Z',
  request: {
    topic: 'payment.dispute.closed',
    since: '24h',
    include: 'dead_letters',
    until: '2026-02-21T09:31:00.000000Z',
    expectedCount: 2,
  },
  replayId: '019c7f40-11ac-7c2e-9d55-7b1f6a0c3d21',
  topic: 'payment.dispute.closed',
  matched: 2,
  isAll: false,
  dismissed: 0,
  unmatched: [],
  error: null,
  createdFrom: '2026-02-21T09:30:00.000Z',
  createdTo: '2026-02-21T09:30:00.020Z',
  endedFrom: '2026-02-21T09:30:00.420Z',
  endedTo: '2026-02-21T09:30:00.460Z',
  subscriptions: [
    {
      topic: 'payment.dispute.closed',
      subscriber: 'accounting',
      count: 2,
      skipped: 0,
      others: 2,
      attached: true,
      paused: false,
      isStillFailing: true,
      lastDeliveredAt: null,
      lastFailedAt: '2026-02-21T09:30:00.460Z',
      lastError: { kind: 'permanent', message: 'the subscriber answered 410: account closed' },
    },
  ],
  leftOut: [],
  planned: 0,
  earlier: null,
  estimatedSeconds: null,
};

export const showPreview = operatorRoute({
  id: 'previewReplay',
  path: `${HOME}/replay`,
  scope: 'event-bus:read',
  summary: 'Preview a replay',
  query: replayForm,
  answer: replayPreview,
  problems: ['validation_failed'],
  examples: {
    'of-a-day': {
      summary: 'The dead letters of one topic of the last day',
      parameters: { topic: 'payment.dispute.closed', since: '24h' },
      answer: answered(PREVIEW),
    },
    'chosen-ones': {
      summary: 'Deliveries by their ids',
      parameters: {
        deliveryIds: [
          '00000000-0000-7000-8000-000000000000.accounting',
          '00000000-0000-7000-8000-000000000000.ledger',
        ],
      },
      answer: answered({
        ...PREVIEW,
        request: {
          deliveryIds: ['00000000-0000-7000-8000-000000000000.accounting'],
          include: 'dead_letters',
          expectedCount: 0,
        },
        topic: null,
        matched: 0,
        createdFrom: null,
        createdTo: null,
        endedFrom: null,
        endedTo: null,
        subscriptions: [],
        unmatched: ['00000000-0000-7000-8000-000000000000.accounting'],
      }),
    },
    'without-a-window': {
      summary: 'Without a window',
      parameters: { topic: 'payment.dispute.closed' },
      answer: invalid('since', 'custom', NO_SINCE),
    },
  },
  handle: async ({ query, bus }) => await preview(bus, query),
  page: previewPage,
});

export const requestReplay = operatorRoute({
  id: 'replay',
  path: `${HOME}/replay`,
  scope: 'event-bus:replay',
  summary: 'Deliver dead letters, or everything, again',
  description:
    'Returns deliveries to pending, with fresh attempts. They keep their events, their places and their histories. The operator, the time, the reason and the request are recorded.',
  body: replayRequest,
  readForm: (content) => readConfirmedForm(content, replayForm),
  dryRun: replayForm,
  answer: z
    .union([replayed, dryRun])
    .meta({ description: 'The replay; for a dry run, what it would have done.' }),
  links: {
    progress: {
      operationId: 'readReplay',
      description: 'The states of its deliveries now.',
      parameters: { replayId: '$response.body#/replayId' },
    },
  },
  problems: ['not_confirmed', 'count_changed', 'no_such_subscription', 'replay_refused'],
  examples: {
    counted: {
      summary: 'A dry run',
      json: { topic: 'payment.dispute.closed', since: '24h', dryRun: true },
      answer: answered({ ...PREVIEW, replayId: null, since: '24h', replayed: 0 }),
    },
    'of-a-day': {
      summary: 'The dead letters of one topic of the last day',
      json: { topic: 'payment.dispute.closed', since: '24h', reason: 'Accounting is back.' },
      answer: answered({
        replayId: '019c7f40-11ac-7c2e-9d55-7b1f6a0c3d21',
        topic: 'payment.dispute.closed',
        since: '24h',
        matched: 2,
        replayed: 2,
      }),
    },
    'already-replayed': {
      summary: 'Deliveries that were replayed already',
      json: { deliveryIds: ['00000000-0000-7000-8000-000000000000.accounting'] },
      answer: answered({
        replayId: '019c7f40-11ac-7c2e-9d55-7b1f6a0c3d23',
        topic: null,
        since: null,
        matched: 0,
        replayed: 0,
        why: 'The selected deliveries are not dead-lettered.',
      }),
    },
    'another-number': {
      summary: 'The number that matches differs from the expected one',
      json: { topic: 'support.incident.declared', since: '24h', expectedCount: 1000 },
      answer: refused('count_changed', {
        detail: '0 deliveries match, not 1000: check them again before you replay.',
      }),
    },
    'a-subscriber-not-listed': {
      summary: 'A subscriber that the catalog does not list',
      json: { topic: 'payment.dispute.closed', subscriber: 'calendar', since: '24h' },
      answer: refused('no_such_subscription', {
        detail:
          'This release’s catalog does not list calendar for payment.dispute.closed: ask a release that does, or list it again. Nothing was replayed.',
      }),
    },
    paced: {
      summary: 'A thousand a minute',
      json: { topic: 'payment.dispute.closed', since: '24h', include: 'all', perMinute: 1000 },
      answer: answered({
        replayId: '019c7f40-11ac-7c2e-9d55-7b1f6a0c3d22',
        topic: 'payment.dispute.closed',
        since: '24h',
        matched: 5000,
        replayed: 16,
      }),
    },
    'a-pace-of-nothing': {
      summary: 'A pace that is too slow',
      json: { topic: 'payment.dispute.closed', since: '24h', perMinute: 0 },
      answer: invalid(
        'perMinute',
        'too_small',
        'expected a whole number of deliveries a minute, 1 to 1000000',
      ),
    },
    'an-unknown-unit': {
      summary: 'A window with an unknown unit',
      json: { topic: 'payment.dispute.closed', since: '1y' },
      answer: invalid(
        'since',
        'custom',
        'expected a time span such as 90m, 24h or 7d (units s, m, h, d, w), at most ten years',
      ),
    },
  },
  handle: async ({ body, operator, bus }) =>
    await orEarlier<Done | DryRun>(
      await bus.database(),
      body,
      body.dryRun ? tried(bus, body) : begun(bus, body, operator.subject),
    ),
  redirectTo: ({ replayId }, { body: { incident } }) => {
    if (replayId === null) return null;
    // The page of an incident follows its replay.
    return incident === undefined
      ? replayedPath(replayId)
      : followedPath(incidentPath(incident), 'replay', { replayId });
  },
  page: (view, context) => {
    if (!isDryRun(view)) throw new TypeError('only a dry run is drawn as a page');
    return previewPage({ ...view, replayId: uuidv7() }, context);
  },
});

export const listReplays = operatorRoute({
  id: 'listReplays',
  path: `${HOME}/replays`,
  scope: 'event-bus:read',
  summary: 'Read the operator log, newest first',
  query: logQuery,
  answer: operatorLog,
  problems: ['validation_failed'],
  examples: {
    'the-newest': {
      summary: 'The ten newest',
      parameters: { limit: 10 },
      answer: answered({
        generatedAt: '2026-02-21T09:31:00.000Z',
        replays: [],
        actions: [
          {
            actionId: '019c7f41-2c3d-7e10-8a6b-0d4f5e6a7b8c',
            at: '2026-02-21T09:30:40.000Z',
            operator: 'kari@solvik.example.no',
            action: 'pause',
            topic: null,
            subscriber: 'accounting',
            deliveryId: null,
            deliveries: null,
            eventId: null,
            reason: 'Accounting is moving to another host.',
            incidentId: null,
            backfillId: null,
            erasureId: null,
            replayId: null,
          },
        ],
        nextCursor: null,
      }),
    },
    'a-wrong-cursor': {
      summary: 'With an invalid cursor',
      parameters: { cursor: 'yesterday' },
      answer: invalid('cursor', 'custom', 'expected a cursor from an earlier answer, or none'),
    },
  },
  handle: async ({ query, bus }) => {
    const db = await bus.database();
    await requireKnownTopic(db, query.topic);
    await requireKnownSubscriber(db, query.subscriber);
    return await readOperatorLog(db, query);
  },
  page: logPage,
});

const BEGUN: Begun<ReplayProgress> = {
  kind: REPLAY,
  answer: replayProgress,
  read: async (bus, replayId) => await readReplay(await bus.database(), replayId),
  nobody: 'no-such-replay',
};

export const showReplay = showRoute(BEGUN, 'See one replay and the states of its deliveries now', replayPage);

export const stopPacedReplay = stopRoute(BEGUN, {
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

export const replayRoutes = [showPreview, requestReplay];
export const logRoutes = [listReplays, showReplay, stopPacedReplay];

const isDryRun = (view: object): view is DryRun => 'subscriptions' in view;

async function preview(bus: Bus, request: ParsedReplayRequest): Promise<ReplayPreview> {
  const db = await bus.database();
  await requireKnownTopic(db, request.topic);
  await requireKnownSubscriber(db, request.subscriber);
  return await previewReplay(db, bus.subscribers(), request);
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
