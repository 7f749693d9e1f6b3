import * as z from 'zod';

import { topics } from '../../bus/catalog/catalog.ts';
import type { Topic } from '../../bus/catalog/topic.ts';
import { jsonSchemaOf } from '../../platform/json-schema.ts';
import type { JsonSchema } from '../../platform/json-schema.ts';
import { VERSION } from '../../platform/version.ts';

/** The parts of an AsyncAPI document that Postbud itself reads. */
export interface AsyncApi {
  readonly asyncapi: '3.0.0';
  readonly info: { readonly title: string; readonly version: string; readonly description: string };
  readonly channels: Readonly<Record<string, object>>;
  readonly operations: Readonly<Record<string, object>>;
  readonly components: {
    readonly messages: Readonly<Record<string, object>>;
    readonly [section: string]: unknown;
  };
  readonly [section: string]: unknown;
}

/**
 * Describes the event bus: a channel for every topic with its producer and its subscribers, and the messages as a
 * subscriber elsewhere receives them over HTTP.
 *
 * @param subscriptionOf describes where and with which options a process has a subscription attached. Without it the
 *   document is about the catalog alone.
 * @see https://www.asyncapi.com/docs/reference/specification/v3.0.0
 */
export function asyncApi(subscriptionOf?: SubscriptionOf): AsyncApi {
  const document = (described ??= describe());
  return subscriptionOf ? { ...document, operations: operations(subscriptionOf) } : document;
}

type SubscriptionOf = (topic: string, subscriber: string) => object;

/** Kept, because writing all schemas takes some 50 ms. */
let described: AsyncApi | undefined;

function describe(): AsyncApi {
  const rows = topics();
  return {
    asyncapi: '3.0.0',
    info: { title: 'Postbud’s event bus', version: VERSION, description: DESCRIPTION },
    defaultContentType: CONTENT_TYPE,
    servers: { subscriber: SERVER },
    channels: Object.fromEntries(rows.map(([topic, row]) => [topic, channel(topic, row)])),
    operations: operations(),
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
  `The events of the platform. Every channel is a topic: one component emits its events (\`send\`), and every
subscriber (\`receive\`) receives each of them at least once, in the order in which they were created, independently of
the other subscribers. If only events with the same value in a field are ordered, \`x-ordered-by\` names that field.
\`x-person\` lists the fields that name the person whose personal data the payload holds.

A subscriber elsewhere receives each event as a POST of a CloudEvents 1.0 document, signed by Standard Webhooks; \`data\`
is the topic's payload. Answer 2xx to accept it, 410 to refuse it permanently, 429 or 503 with \`Retry-After\` to receive it
later. After any other answer it is sent again after 1 minute, 5 minutes, 30 minutes and 6 hours. While nobody answers,
events wait, and only one is tried at a time (unless SUBSCRIBER_<NAME>_OUTAGE is off). Ignore unknown fields:
a payload may gain optional ones within its version (\`schemaversion\`). \`x-personal-data\` marks personal data.

A subscriber with SUBSCRIBER_<NAME>_BATCH receives arrays of up to 100 such documents of one topic, in order, as
\`application/cloudevents-batch+json\`. 2xx accepts all of them, 2xx with \`{ "delivered": n }\` the first n; any other
answer applies to the first event. \`webhook-id\` is then the id of the batch: identify each event by its own \`id\`.

A server's document says in \`x-subscription\` where it handles each subscription, and with which options: \`place\` is
\`in_process\`, \`elsewhere\`, \`journal\` (a stand-in on a developer's machine) or \`unattached\` (deliveries wait).`.replaceAll(
    /(?<!\n)\n(?!\n)/g,
    ' ',
  );

/** A subscriber's address is configuration: `SUBSCRIBER_<NAME>_URL`. */
const SERVER = {
  host: '{host}',
  pathname: '{path}',
  protocol: 'https',
  description: 'A subscriber elsewhere, at SUBSCRIBER_<NAME>_URL.',
  variables: {
    host: { description: 'The host.', examples: ['accounting.example.no'] },
    path: { description: 'The path that receives the events of all its topics.', examples: ['/events'] },
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
    id: z
      .uuid()
      .meta({ description: 'The event’s id, the same at every attempt and replay: process each id once.' }),
    source: z
      .string()
      .meta({ description: 'The component that emitted the event.', format: 'uri-reference' }),
    type: z.string().meta({ description: 'The topic.' }),
    time: z.iso.datetime().meta({ description: 'When the event was created, by the database’s clock.' }),
    datacontenttype: z.literal('application/json'),
    sequence: z
      .string()
      .meta({ description: 'The order of events of a topic that have the same time.', pattern: '^\\d+$' }),
    schemaversion: z.int().positive().meta({ description: 'The payload’s version, counted from 1.' }),
    correlationid: z.string().meta({ description: 'Shared by all events that one request led to.' }),
    causationid: z.string().optional().meta({ description: 'The id of the event that caused this one.' }),
    partitionkey: z.string().optional().meta({ description: 'The ordering key, where the topic has one.' }),
    traceparent: z.string().optional().meta({ description: 'The event’s trace (W3C Trace Context).' }),
    erased: z
      .literal(true)
      .optional()
      .meta({ description: 'Present where personal data in the payload was overwritten.' }),
    previousid: z.uuid().optional().meta({
      description:
        'The id of the event just before this one in its order, whatever became of it. Absent for the first one, and where those before it are no longer kept.',
    }),
    previousskipped: z.literal(true).optional().meta({
      description:
        'Present where the event before this one was given up: it is a dead letter, or an operator skipped or dismissed it.',
    }),
  })
  .meta({ title: 'CloudEvents 1.0 in JSON, without its data' });

/** The headers of a delivery. */
const headers = z
  .object({
    'webhook-id': z.uuid().meta({ description: 'The event’s id.' }),
    'webhook-timestamp': z
      .string()
      .meta({ description: 'The time of this attempt in Unix seconds.', pattern: '^\\d+$' }),
    'webhook-signature': z.string().meta({ pattern: '^v1,' }),
    'x-attempt': z.string().meta({
      description: 'The attempt, counted from 1, and from 1 again after a replay.',
      pattern: '^\\d+$',
    }),
    traceparent: z
      .string()
      .optional()
      .meta({ description: 'The trace of this attempt, where traces are kept (W3C Trace Context).' }),
  })
  .meta({ title: 'Headers of a delivery over HTTP' });

function channel(topic: string, row: Topic) {
  const { description, producer, listed, orderedBy } = row;
  return {
    address: topic,
    description,
    messages: { event: { $ref: `#/components/messages/${topic}` } },
    tags: [{ name: producer }],
    // Defined by the platform's owner; we define the others.
    'x-fixed': listed,
    ...(orderedBy !== undefined && { 'x-ordered-by': orderedBy }),
    ...(row.person !== undefined && { 'x-person': row.person }),
  };
}

function operations(subscriptionOf?: SubscriptionOf): Readonly<Record<string, object>> {
  return Object.fromEntries(topics().flatMap(([topic, row]) => operationsOf(topic, row, subscriptionOf)));
}

function operationsOf(
  topic: string,
  { producer, subscribers, description }: Topic,
  subscriptionOf?: SubscriptionOf,
): readonly (readonly [name: string, operation: object])[] {
  const of = { channel: { $ref: `#/channels/${topic}` } };
  const sends = { action: 'send', ...of, title: `${producer} emits ${topic}`, summary: description };
  return [
    [`${producer}.sends.${topic}`, { ...sends, 'x-component': producer }],
    ...subscribers.map((name) => {
      const receives = { action: 'receive', ...of, title: `${name} receives ${topic}` };
      const operation = {
        ...receives,
        'x-component': name,
        ...(subscriptionOf && { 'x-subscription': subscriptionOf(topic, name) }),
        bindings: { http: { method: 'POST', bindingVersion: '0.3.0' } },
      };
      return [`${name}.receives.${topic}`, operation] as const;
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

/** An event as subscribers elsewhere receive it: the topic's example in an invented envelope. */
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
