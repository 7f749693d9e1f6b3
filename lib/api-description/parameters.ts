import * as z from 'zod';

import { catalog } from '../catalog/catalog.ts';
import type { Topic } from '../catalog/topic.ts';
import { deliveryId, topicName } from '../deliveries/replay-request.ts';
import type { Parameter } from '../http/openapi/operation.ts';

/** What several operations have in their paths or headers. */

export const origin: Parameter = {
  in: 'header',
  name: 'Origin',
  description: 'A browser says which page calls. Programs leave it out.',
  schema: z.string(),
};

export const topicParameter: Parameter = { in: 'path', name: 'topic', schema: topicName };

export const deliveryIdParameter: Parameter = { in: 'path', name: 'deliveryId', schema: deliveryId };

const names = new Set(Object.values<Topic>(catalog).flatMap(({ subscribers }) => subscribers));

export const subscriberParameter: Parameter = {
  in: 'path',
  name: 'subscriber',
  schema: z
    .enum([...names].toSorted())
    .meta({ id: 'SubscriberName', description: 'A subscriber of the catalog.' }),
};

/** Says which page of ours sent a form; a browser sets it. */
export const fetchSite: Parameter = {
  in: 'header',
  name: 'Sec-Fetch-Site',
  description:
    'Must be `same-origin`, as browsers set it for pages of the console. Without it `Origin` is looked at.',
  schema: z.string(),
};

/** The fields of a query. */
export function queryParameters(query: z.ZodObject): readonly Parameter[] {
  return Object.entries(query.shape).map(([name, schema]) => ({
    in: 'query',
    name,
    schema: z.custom<z.ZodType>((field) => field instanceof z.ZodType).parse(schema),
    isList: name === 'deliveryIds',
  }));
}
