import * as z from 'zod';

import { asyncApi } from '../../elsewhere/catalog-description/asyncapi.ts';
import { asyncApiPath } from '../kit/links.ts';
import { operatorRoute } from '../kit/route.ts';
import { subscriptionsIn } from '../kit/subscription.ts';

/** The catalog for code generators, with the options of each subscription of this process. */
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
    .describe('An AsyncAPI 3.0 document.'),
  handle: async ({ bus }) => asyncApi(subscriptionsIn(bus)),
});

export const catalogViews = [{ route: showAsyncApi }];
