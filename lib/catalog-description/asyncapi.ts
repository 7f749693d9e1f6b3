import * as z from 'zod';

import { topics } from '../catalog/catalog.ts';
import type { Topic } from '../catalog/topic.ts';
import { jsonSchemaOf } from '../json-schema.ts';
import type { JsonSchema } from '../json-schema.ts';
import { VERSION } from '../version.ts';

/** An AsyncAPI document, as far as we look into it ourselves. */
export interface AsyncApi {
  readonly asyncapi: '3.0.0';
  readonly info: { readonly title: string; readonly version: string; readonly description: string };
  readonly channels: Readonly<Record<string, object>>;
  readonly operations: Readonly<Record<string, object>>;
  readonly [section: string]: unknown;
}

/**
 * Describes the event bus: a channel for every topic, who sends on it and who receives, and the messages as a subscriber
 * elsewhere is handed them over HTTP.
 *
 * @returns the same document for the same catalog.
 * @see https://www.asyncapi.com/docs/reference/specification/v3.0.0
 */
export function asyncApi(): AsyncApi {
  return (described ??= describe());
}

/** All schemas are gone through for it, which takes some 50 ms. */
let described: AsyncApi | undefined;

function describe(): AsyncApi {
  const rows = topics();
  return {
    asyncapi: '3.0.0',
    info: { title: 'Postbud’s event bus', version: VERSION, description: DESCRIPTION },
    defaultContentType: CONTENT_TYPE,
    servers: { subscriber: SERVER },
    channels: Object.fromEntries(rows.map(([topic, row]) => [topic, channel(topic, row)])),
    operations: Object.fromEntries(rows.flatMap(([topic, row]) => operations(topic, row))),
    components: {
      messages: Object.fromEntries(rows.map(([topic, row]) => [topic, message(topic, row)])),
      schemas: {
        CloudEvent: jsonSchemaOf(envelope, 'draft-07'),
        DeliveryHeaders: jsonSchemaOf(headers, 'draft-07'),
      },
      securitySchemes: { standardWebhooks: SIGNATURE },
    },
  };
}

const CONTENT_TYPE = 'application/cloudevents+json';

const DESCRIPTION =
  `What the components of the platform tell each other. Every channel is a topic: one component states
the fact (\`send\`), others are handed every event of it (\`receive\`), each independently of the others, at least once and
in the order in which the events were created. \`x-ordered-by\` names the field within whose values the order holds, where
that is not the whole topic.

A subscriber elsewhere is handed each event as a POST of a CloudEvents 1.0 document, signed as Standard Webhooks does.
What it carries in \`data\` is the topic's own. 2xx: taken. 410: never again. 429 and 503 with \`Retry-After\`: later.
Anything else is tried again after 1 minute, 5 minutes, 30 minutes and 6 hours. Read over fields that you don't know:
a payload may gain optional ones within its version (\`schemaversion\`). \`x-personal-data\` marks personal data.

One that takes batches (SUBSCRIBER_<NAME>_BATCH) is handed arrays of up to 100 such documents of a topic, in order, as
\`application/cloudevents-batch+json\`. 2xx: all taken; 2xx with \`{ "delivered": n }\`: the first n. Any other answer is
about the first. \`webhook-id\` is then the same for the same events only: know each by its own \`id\`.`.replaceAll(
    /(?<!\n)\n(?!\n)/g,
    ' ',
  );

/** Where a subscriber listens is its own affair: `SUBSCRIBER_<NAME>_URL`. */
const SERVER = {
  host: '{host}',
  pathname: '{path}',
  protocol: 'https',
  description: 'A subscriber elsewhere, as SUBSCRIBER_<NAME>_URL has it.',
  variables: {
    host: { description: 'Its host.', examples: ['accounting.example.no'] },
    path: { description: 'The path that takes the events of all its topics.', examples: ['/events'] },
  },
  security: [{ $ref: '#/components/securitySchemes/standardWebhooks' }],
};

const SIGNATURE = {
  type: 'httpApiKey',
  in: 'header',
  name: 'webhook-signature',
  description:
    '`v1,` and the base64 HMAC-SHA256 of `<webhook-id>.<webhook-timestamp>.<body>` with the subscriber’s secret (SUBSCRIBER_<NAME>_SECRET, base64 after `whsec_`). See https://www.standardwebhooks.com.',
};

/** The attributes that are the same for all topics. */
const envelope = z
  .object({
    specversion: z.literal('1.0'),
    id: z.uuid().meta({ description: 'Of the event. The same at every attempt and replay: take each once.' }),
    source: z.string().meta({ description: 'The component that stated the fact.', format: 'uri-reference' }),
    type: z.string().meta({ description: 'The topic.' }),
    time: z.iso.datetime().meta({ description: 'When the event was created, by the database’s clock.' }),
    datacontenttype: z.literal('application/json'),
    sequence: z
      .string()
      .meta({ description: 'Orders events of a topic that have the same time.', pattern: '^\\d+$' }),
    schemaversion: z.int().positive().meta({ description: 'Of the payload, counted from 1.' }),
    correlationid: z.string().meta({ description: 'Shared by all that one request set going.' }),
    causationid: z.string().optional().meta({ description: 'The event that this one follows from.' }),
    partitionkey: z.string().optional().meta({ description: 'The ordering key, where the topic has one.' }),
    traceparent: z
      .string()
      .optional()
      .meta({ description: 'The trace that it belongs to (W3C Trace Context).' }),
  })
  .meta({ title: 'CloudEvents 1.0, JSON format, less its data' });

/** What comes with the body. */
const headers = z
  .object({
    'webhook-id': z.uuid().meta({ description: 'The event’s id.' }),
    'webhook-timestamp': z
      .string()
      .meta({ description: 'Of this attempt: Unix seconds.', pattern: '^\\d+$' }),
    'webhook-signature': z.string().meta({ pattern: '^v1,' }),
    'x-attempt': z
      .string()
      .meta({ description: 'Counted from 1, from 1 again after a replay.', pattern: '^\\d+$' }),
    traceparent: z
      .string()
      .optional()
      .meta({ description: 'Of this attempt, where traces are kept (W3C Trace Context).' }),
  })
  .meta({ title: 'Headers of a delivery over HTTP' });

function channel(topic: string, row: Topic) {
  const { description, producer, listed, orderedBy } = row;
  return {
    address: topic,
    description,
    messages: { event: { $ref: `#/components/messages/${topic}` } },
    tags: [{ name: producer }],
    // Fixed by the platform's owner; the others are ours.
    'x-fixed': listed,
    ...(orderedBy !== undefined && { 'x-ordered-by': orderedBy }),
  };
}

function operations(topic: string, { producer, subscribers, description }: Topic) {
  const of = { channel: { $ref: `#/channels/${topic}` } };
  const sends = { action: 'send', ...of, title: `${producer} states ${topic}`, summary: description };
  return [
    [`${producer}.sends.${topic}`, { ...sends, 'x-component': producer }] as const,
    ...subscribers.map((name) => {
      const receives = { action: 'receive', ...of, title: `${name} is handed ${topic}` };
      return [
        `${name}.receives.${topic}`,
        { ...receives, 'x-component': name, bindings: { http: { method: 'POST', bindingVersion: '0.3.0' } } },
      ] as const;
    }),
  ];
}

function message(topic: string, row: Topic) {
  return {
    name: topic,
    title: topic,
    summary: row.description,
    contentType: CONTENT_TYPE,
    headers: { $ref: '#/components/schemas/DeliveryHeaders' },
    payload: { schemaFormat: 'application/schema+json;version=draft-07', schema: payload(topic, row) },
    correlationId: { location: '$message.payload#/correlationid' },
    examples: [{ name: 'event', summary: row.description, payload: example(topic, row) }],
    'x-schema-version': row.version,
  };
}

function payload(topic: string, { producer, version, payload: data }: Topic): JsonSchema {
  return {
    allOf: [
      { $ref: '#/components/schemas/CloudEvent' },
      {
        type: 'object',
        properties: {
          type: { const: topic },
          source: { const: `/postbud/${producer}` },
          schemaversion: { const: version },
          data: jsonSchemaOf(data, 'draft-07'),
        },
        required: ['data'],
      },
    ],
  };
}

/** An event as subscribers elsewhere get it, made up but for the payload. */
function example(topic: string, row: Topic) {
  const { version, producer, example: data } = row;
  const partitionkey = row.orderingKey?.(row.payload.parse(data));
  return {
    specversion: '1.0',
    id: '019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77',
    source: `/postbud/${producer}`,
    type: topic,
    time: '2026-02-21T09:30:00.000Z',
    datacontenttype: 'application/json',
    sequence: '48213',
    schemaversion: version,
    correlationid: '5f0a4d3c-8a3e-4c55-9a35-0c7c4d0f3b1e',
    ...(partitionkey !== undefined && { partitionkey }),
    data,
  };
}
