import * as z from 'zod';

import { asyncApi } from '../../elsewhere/catalog-description/asyncapi.ts';
import { answered } from '../../platform/http/operation.ts';
import { asyncApiPath, HOME } from '../kit/links.ts';
import { operatorRoute } from '../kit/route.ts';
import { subscriptionsIn } from '../kit/subscription.ts';
import { view } from '../kit/view.ts';
import { catalogDoc } from './doc.ts';
import { catalogView, describeCatalog } from './read.ts';

export const listCatalog = view({
  id: 'readCatalog',
  path: `${HOME}/catalog`,
  summary: 'See every topic, its producer and its subscribers',
  answer: catalogView,
  examples: {
    'as-json': {
      summary: 'The catalog',
      answer: answered(),
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
