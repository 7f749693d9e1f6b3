import * as z from 'zod';

import { replayRequest } from '../../deliveries/replay-request.ts';
import { logQuery } from '../../operators/replays/read.ts';
import { dryRun, operatorLog, replayed, replayPreview, replayProgress } from '../answers/replays.ts';
import { answered, invalid, refused } from '../../http/openapi/operation.ts';
import type { Operation } from '../../http/openapi/operation.ts';
import { queryParameters } from '../parameters.ts';
import { doing, showing } from './operator.ts';

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
      others: 2,
      attached: true,
      paused: false,
      isStillFailing: true,
      lastDeliveredAt: null,
      lastFailedAt: '2026-02-21T09:30:00.460Z',
      lastError: { kind: 'permanent', message: 'the subscriber answered 410 Gone' },
    },
  ],
  leftOut: [],
};

export const previewReplay: Operation = showing({
  id: 'previewReplay',
  path: '/platform/event-bus/replay',
  summary: 'See what a replay would do',
  access: 'event-bus:read',
  parameters: queryParameters(replayRequest),
  answer: replayPreview,
  problems: ['validation_failed'],
  examples: {
    'of-a-day': {
      summary: 'The dead letters of a topic, of the last day',
      parameters: { topic: 'payment.dispute.closed', since: '24h' },
      answer: answered(PREVIEW),
    },
    'chosen-ones': {
      summary: 'Deliveries by their ids',
      parameters: { deliveryIds: ['999999999999999999-1', '999999999999999999-2'] },
      answer: answered({
        ...PREVIEW,
        request: { deliveryIds: ['999999999999999999-1'], include: 'dead_letters', expectedCount: 0 },
        topic: null,
        matched: 0,
        createdFrom: null,
        createdTo: null,
        endedFrom: null,
        endedTo: null,
        subscriptions: [],
      }),
    },
    'without-a-window': {
      summary: 'Without a window',
      parameters: { topic: 'payment.dispute.closed' },
      answer: invalid(
        'since',
        'custom',
        'write a whole number above 0 and a unit, s, m, h, d or w, for example 24h; ten years at most',
      ),
    },
  },
});

export const replay: Operation = doing(
  {
    id: 'replay',
    path: '/platform/event-bus/replay',
    summary: 'Have dead letters, or everything, delivered again',
    description:
      'Puts deliveries back to pending, with fresh attempts: they keep their events, their places and their histories. Who did it, when, why and what is kept.',
    access: 'event-bus:replay',
    body: { schema: replayRequest, forms: true, limitBytes: 64 * 1024 },
    answer: z.union([replayed, dryRun]).meta({ description: 'What was put back, or would be.' }),
    links: {
      progress: {
        operationId: 'readReplay',
        description: 'What has become of its deliveries.',
        parameters: { replayId: '$response.body#/replayId' },
      },
    },
    problems: ['not_confirmed', 'count_changed', 'no_such_subscription'],
    examples: {
      counted: {
        summary: 'A dry run, which only counts',
        json: { topic: 'payment.dispute.closed', since: '24h', dryRun: true },
        answer: answered({ ...PREVIEW, replayId: null, since: '24h', replayed: 0 }),
      },
      'of-a-day': {
        summary: 'The dead letters of a topic, of the last day',
        json: { topic: 'payment.dispute.closed', since: '24h', reason: 'Accounting is back.' },
        answer: answered({
          replayId: '019c7f40-11ac-7c2e-9d55-7b1f6a0c3d21',
          topic: 'payment.dispute.closed',
          since: '24h',
          matched: 2,
          replayed: 2,
        }),
      },
      'another-number': {
        summary: 'When another number matches than was expected',
        json: { topic: 'support.incident.declared', since: '24h', expectedCount: 1000 },
        answer: refused('count_changed', {
          detail: '0 deliveries match, not 1000: look again before you replay.',
        }),
      },
      'a-subscriber-not-listed': {
        summary: 'To a subscriber that the catalog does not list',
        json: { topic: 'payment.dispute.closed', subscriber: 'calendar', since: '24h' },
        answer: refused('no_such_subscription', {
          detail:
            'This release’s catalog does not list calendar for payment.dispute.closed: replay from a release that does, or list it again. Nothing was replayed.',
        }),
      },
      'an-unknown-unit': {
        summary: 'A window without a unit that we know',
        json: { topic: 'payment.dispute.closed', since: '1y' },
        answer: invalid(
          'since',
          'custom',
          'write a whole number above 0 and a unit, s, m, h, d or w, for example 24h; ten years at most',
        ),
      },
    },
  },
  'either',
);

export const listReplays: Operation = showing({
  id: 'listReplays',
  path: '/platform/event-bus/replays',
  summary: 'See what operators did, newest first',
  access: 'event-bus:read',
  parameters: queryParameters(logQuery),
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
            reason: 'It is being moved.',
          },
        ],
        nextCursor: null,
      }),
    },
    'a-wrong-cursor': {
      summary: 'With a cursor that no answer gave',
      parameters: { cursor: 'yesterday' },
      answer: invalid('cursor', 'custom', 'write a cursor as an answer gave it, or none'),
    },
  },
});

export const readReplay: Operation = showing({
  id: 'readReplay',
  path: '/platform/event-bus/replays/{replayId}',
  summary: 'See one replay, and what has become of its deliveries',
  access: 'event-bus:read',
  parameters: [{ in: 'path', name: 'replayId', schema: z.uuid() }],
  answer: replayProgress,
  problems: ['not_found'],
  examples: {
    'no-such-replay': {
      summary: 'One that there is not',
      parameters: { replayId: '019a0000-0000-7000-8000-000000000009' },
      answer: refused('not_found', { detail: 'There is no such replay.' }),
    },
  },
});
