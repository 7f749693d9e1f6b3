import * as z from 'zod';

import { asyncApi } from '../../elsewhere/catalog-description/asyncapi.ts';
import { answered, HTML_TYPE } from '../../platform/http/operation.ts';
import { asyncApiPath, HOME } from '../kit/links.ts';
import { operatorRoute } from '../kit/route.ts';
import { subscriptionsIn } from '../kit/subscription.ts';
import { asyncApiPage } from './asyncapi-page.ts';
import { catalogPage } from './page.ts';
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

export const showCatalog = operatorRoute({
  id: 'readCatalog',
  path: `${HOME}/catalog`,
  scope: 'event-bus:read',
  summary: 'See every topic, its producer and its subscribers',
  answer: catalogView,
  csv: [{ path: 'topics', words: 'Topics' }],
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
    'as-a-page': { summary: 'The same as a page', answer: { status: 200, type: HTML_TYPE } },
  },
  handle: async ({ bus }) => describeCatalog(bus),
  page: catalogPage,
});

const asyncApiDocument = z
  .looseObject({
    asyncapi: z.literal('3.0.0'),
    info: z.looseObject({ title: z.string() }),
    channels: z.looseObject({}),
    operations: z.looseObject({}),
    components: z.looseObject({ messages: z.looseObject({}), schemas: z.looseObject({}) }),
  })
  .meta({ description: 'An AsyncAPI 3.0 document.' });

const DOCUMENT = answered({
  asyncapi: '3.0.0',
  info: { title: 'Postbud’s event bus' },
  channels: {},
  operations: {},
  components: { messages: {}, schemas: {} },
});

export const showAsyncApi = operatorRoute({
  id: 'readAsyncApi',
  path: asyncApiPath(),
  scope: 'event-bus:read',
  summary: 'Get the AsyncAPI description of the bus',
  description: 'As a page: an index of its topics, and with `topic` the part about one of them.',
  query: z.object({ topic: z.string().optional() }),
  answer: asyncApiDocument,
  examples: {
    'as-json': { summary: 'The document', answer: DOCUMENT },
    'as-a-page': { summary: 'An index of it, as a page', answer: { status: 200, type: HTML_TYPE } },
  },
  handle: async ({ bus }) => asyncApi(subscriptionsIn(bus)),
  page: asyncApiPage,
});

export const downloadAsyncApi = operatorRoute({
  id: 'downloadAsyncApi',
  path: `${asyncApiPath()}.json`,
  scope: 'event-bus:read',
  summary: 'Download the AsyncAPI description of the bus',
  description: 'The same document as JSON, also to browsers.',
  answer: asyncApiDocument,
  examples: { 'as-json': { summary: 'The document', answer: DOCUMENT } },
  handle: async ({ bus }) => asyncApi(subscriptionsIn(bus)),
});

export const catalogRoutes = [showCatalog, showAsyncApi, downloadAsyncApi];
