import * as z from 'zod';

import type { Examination } from '../../operators/doctor/read.ts';
import { doctorQuery } from '../../operators/routes.ts';
import { overview } from '../answers/overview.ts';
import { catalogView, topicView } from '../answers/topics.ts';
import { count } from '../answers/values.ts';
import { answered, HTML_TYPE, invalid, refused } from '../../http/openapi/operation.ts';
import type { Operation } from '../../http/openapi/operation.ts';
import { queryParameters, topicParameter } from '../parameters.ts';
import { showing } from './operator.ts';

const NO_HOURS = {
  delivered: Array.from({ length: 24 }, () => 0),
  deadLettered: Array.from({ length: 24 }, () => 0),
};

const TOPIC = {
  topic: 'payment.dispute.closed',
  producer: 'payments',
  inCatalog: true,
  pending: 0,
  failing: 1,
  deadLettered: 2,
  oldestDueAgeSeconds: null,
  nextRetryAt: '2026-02-21T09:35:00.000Z',
  awaitingFanOut: 0,
  heldBackSince: null,
  hours: NO_HOURS,
  subscribers: [
    {
      subscriber: 'accounting',
      inCatalog: true,
      neededVersion: null,
      pending: 0,
      failing: 1,
      deadLettered: 2,
      attached: true,
      paused: false,
      pause: null,
      oldestDueAgeSeconds: null,
      nextRetryAt: '2026-02-21T09:35:00.000Z',
      lastDeliveredAt: '2026-02-20T16:02:11.480Z',
      lastFailedAt: '2026-02-21T09:30:00.120Z',
    },
  ],
};

const COUNTS = { pending: 0, failing: 1, deadLettered: 2 };

export const readOverview: Operation = showing({
  id: 'readOverview',
  path: '/platform/event-bus',
  summary: 'See how much is where, and what waits for what',
  access: 'event-bus:read',
  answer: overview,
  problems: [],
  examples: {
    'as-json': {
      summary: 'The overview',
      answer: answered({
        generatedAt: '2026-02-21T09:31:00.000Z',
        relay: { state: 'running', lastPassAt: '2026-02-21T09:30:57.204Z', runsHere: true, lagSeconds: 0 },
        totals: { ...COUNTS, deliveries: COUNTS, deliveredLast24h: 0, firstAttemptLast24h: 0 },
        hours: NO_HOURS,
        worstError: null,
        topics: [TOPIC],
      }),
    },
    'as-a-page': { summary: 'The same as a page', answer: { status: 200, type: HTML_TYPE } },
  },
});

export const readTopic: Operation = showing({
  id: 'readTopic',
  path: '/platform/event-bus/topics/{topic}',
  summary: 'See one topic: its subscribers, the lanes that wait, its errors and newest events',
  access: 'event-bus:read',
  parameters: [topicParameter],
  answer: topicView,
  links: {
    retryNow: {
      operationId: 'retryNow',
      description: 'Have the delivery that holds the first lane tried again now.',
      parameters: { deliveryId: '$response.body#/heldLanes/0/deliveryId' },
      requestBody: {},
    },
    skip: {
      operationId: 'skip',
      description: 'Give it up, so that its lane goes on.',
      parameters: { deliveryId: '$response.body#/heldLanes/0/deliveryId' },
      requestBody: { reason: 'The subscriber will never take it.' },
    },
  },
  problems: ['not_found'],
  examples: {
    'a-topic': {
      summary: 'A topic',
      parameters: { topic: 'payment.dispute.closed' },
      answer: answered({
        generatedAt: '2026-02-21T09:31:00.000Z',
        topic: TOPIC,
        description: 'The bank decided a dispute.',
        version: 1,
        orderedBy: null,
        heldLanes: [
          {
            subscriber: 'accounting',
            orderingKey: '',
            deliveryId: '41-118',
            eventId: '019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77',
            subject: 'dispute dsp_41',
            attempts: 1,
            nextAttemptAt: '2026-02-21T09:35:00.000Z',
            lastError: { kind: 'http_500', message: 'the subscriber answered 500' },
            behind: 0,
            isMoreBehind: false,
          },
        ],
        errors: [],
        events: [
          {
            eventId: '019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77',
            createdAt: '2026-02-21T09:30:00.000Z',
            subject: 'dispute dsp_41',
            orderingKey: '',
            state: 'failing',
          },
        ],
      }),
    },
    'no-such-topic': {
      summary: 'A topic that is not in the catalog',
      parameters: { topic: 'payment.forgotten' },
      answer: refused('not_found', { detail: 'The catalog has no such topic.' }),
    },
  },
});

export const readCatalog: Operation = showing({
  id: 'readCatalog',
  path: '/platform/event-bus/catalog',
  summary: 'See what can happen, who states it and who is handed it',
  access: 'event-bus:read',
  answer: catalogView,
  problems: [],
  examples: {
    'as-json': {
      summary: 'The catalog',
      answer: answered({
        topics: [
          {
            topic: 'cron.daily.06_00',
            producer: 'system',
            subscribers: [{ subscriber: 'reporting', attached: false }],
            description: 'Every day at 06:00 UTC: content agent, audits, e-invoice batches.',
            version: 1,
            listed: true,
            orderedBy: null,
            fields: [{ path: 'day', type: 'date', isRequired: true, isPersonal: false }],
            example: { day: '2026-03-02', scheduledFor: '2026-03-02T06:00:00Z' },
          },
        ],
      }),
    },
    'as-a-page': { summary: 'The same as a page', answer: { status: 200, type: HTML_TYPE } },
  },
});

export const readAsyncApi: Operation = showing({
  id: 'readAsyncApi',
  path: '/platform/event-bus/catalog/asyncapi',
  summary: 'Get the bus described in AsyncAPI',
  access: 'event-bus:read',
  answer: z
    .looseObject({ asyncapi: z.literal('3.0.0'), info: z.looseObject({ title: z.string() }) })
    .meta({ description: 'An AsyncAPI 3.0 document.' }),
  problems: [],
  examples: {
    'as-json': {
      summary: 'The document',
      answer: answered({ asyncapi: '3.0.0', info: { title: 'Postbud’s event bus', version: '0.2.0' } }),
    },
    'as-a-page': { summary: 'The same as a page', answer: { status: 200, type: HTML_TYPE } },
  },
});

const examination = z
  .object({
    checked: z.array(z.string()).meta({ description: 'What was looked for; each is a promise.' }),
    findings: z.array(
      z.object({
        promise: z.string(),
        what: z.string(),
        count,
        examples: z.array(z.string()).max(5).meta({ description: 'Ids.' }),
      }),
    ),
    events: count.meta({ description: 'How many of the newest events were looked at.' }),
  })
  .meta({
    id: 'Examination',
    description: 'Whether the bus has kept its promises.',
  }) satisfies z.ZodType<Examination>;

export const examineBus: Operation = showing({
  id: 'examine',
  path: '/platform/event-bus/doctor',
  summary: 'Look whether the bus has kept its promises',
  access: 'event-bus:read',
  parameters: queryParameters(doctorQuery),
  answer: examination,
  problems: ['validation_failed'],
  examples: {
    'the-newest': {
      summary: 'The thousand newest events',
      parameters: { events: 1000 },
      answer: answered({ checked: ['No event is lost.'], findings: [], events: 1000 }),
    },
    'too-many': {
      summary: 'More than a function has time for',
      parameters: { events: 1_000_000 },
      answer: invalid('events', 'too_big', 'write a whole number, 1 to 20000'),
    },
  },
});
