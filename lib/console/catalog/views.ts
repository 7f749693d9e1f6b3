import * as z from 'zod';

import { asyncApi } from '../../elsewhere/catalog-description/asyncapi.ts';
import { answered } from '../../platform/http/operation.ts';
import { asyncApiPath, HOME } from '../kit/links.ts';
import { operatorRoute } from '../kit/route.ts';
import { subscriptionsIn } from '../kit/subscription.ts';
import { view } from '../kit/view.ts';
import { catalogDoc } from './doc.ts';
import { catalogView, describeCatalog } from './read.ts';

const NOTIFICATIONS = {
  batch: false,
  transactional: false,
  sharesCommits: false,
  timeoutMs: 15_000,
  maxAttempts: 5,
  afterDeadLetter: 'continue',
  outage: 'off',
  onReplay: 'run',
  rate: null,
  concurrency: null,
} as const;

export const listCatalog = view({
  id: 'readCatalog',
  path: `${HOME}/catalog`,
  summary: 'See every topic, its producer and its subscribers',
  answer: catalogView,
  examples: {
    'as-json': {
      summary: 'The catalog',
      answer: answered({
        topics: [
          {
            topic: 'cron.daily.06_00',
            producer: 'system',
            subscribers: [
              {
                subscriber: 'reporting',
                attached: false,
                place: 'unattached',
                options: null,
                invalidVariable: null,
              },
              {
                subscriber: 'notifications',
                attached: true,
                place: 'in_process',
                options: NOTIFICATIONS,
                invalidVariable: null,
              },
            ],
            description: 'Every day at 06:00 UTC: content agent, audits, e-invoice batches.',
            version: 1,
            listed: true,
            orderedBy: null,
            person: [],
            fields: [{ path: 'day', type: 'date', isRequired: true, isPersonal: false }],
            example: { day: '2026-03-02', scheduledFor: '2026-03-02T06:00:00Z' },
          },
        ],
      }),
    },
  },
  handle: async ({ bus }) => describeCatalog(bus),
  says: catalogDoc,
});

const showAsyncApi = operatorRoute({
  id: 'readAsyncApi',
  path: asyncApiPath(),
  scope: 'event-bus:read',
  summary: 'Get the AsyncAPI description of the bus, as JSON to browsers too',
  answer: z
    .looseObject({
      asyncapi: z.literal('3.0.0'),
      info: z.looseObject({ title: z.string() }),
      channels: z.looseObject({}),
      operations: z.looseObject({}),
      components: z.looseObject({ messages: z.looseObject({}), schemas: z.looseObject({}) }),
    })
    .meta({ description: 'An AsyncAPI 3.0 document.' }),
  examples: {
    'as-json': {
      summary: 'The document',
      answer: answered({
        asyncapi: '3.0.0',
        info: { title: 'Postbud’s event bus' },
        channels: {},
        operations: {},
        components: { messages: {}, schemas: {} },
      }),
    },
  },
  handle: async ({ bus }) => asyncApi(subscriptionsIn(bus)),
});

export const catalogViews = [listCatalog, { route: showAsyncApi }];
