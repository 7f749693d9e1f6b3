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
    readonly schemas: Readonly<Record<string, object>>;
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
  const document = (described ??= describe(topics(), RECEIVED));
  return subscriptionOf ? { ...document, operations: operations(topics(), subscriptionOf) } : document;
}

/** Describes the topics that a component receives: their messages, and its operations alone. */
export function asyncApiOfSubscriber(name: string): AsyncApi {
  const rows = topics().filter(([, { subscribers }]) => subscribers.includes(name));
  return withOperations(describe(rows, RECEIVED), `${name}.receives.`);
}

/**
 * Describes the topics that a component produces: their messages as it posts them to `POST /api/events`, and its
 * operations alone.
 *
 * @param posted the schema of an event that is posted.
 */
export function asyncApiOfProducer(name: string, posted: z.ZodObject): AsyncApi {
  const rows = topics().filter(([, { producer }]) => producer === name);
  return withOperations(describe(rows, postedAs(posted)), `${name}.sends.`);
}

function withOperations(document: AsyncApi, prefix: string): AsyncApi {
  const own = Object.entries(document.operations).filter(([operation]) => operation.startsWith(prefix));
  return { ...document, operations: Object.fromEntries(own) };
}

type SubscriptionOf = (topic: string, subscriber: string) => object;

/** Kept, because writing all schemas takes some 50 ms. */
let described: AsyncApi | undefined;

/** The one or the other side of the bus: how an event looks there, and where it goes. */
interface Side {
  readonly description: string;
  readonly servers: object;
  readonly signature: string;
  /** The attributes that are the same for all topics, and the headers. */
  readonly schemas: { readonly CloudEvent: JsonSchema; readonly DeliveryHeaders?: JsonSchema };
  readonly sourceOf: (producer: string) => string;
  readonly example: object;
}

function describe(rows: readonly (readonly [string, Topic])[], side: Side): AsyncApi {
  const { description, servers, signature, schemas } = side;
  return {
    asyncapi: '3.0.0',
    info: { title: 'Postbud’s event bus', version: VERSION, description },
    defaultContentType: CONTENT_TYPE,
    servers,
    channels: Object.fromEntries(rows.map(([topic, row]) => [topic, channel(topic, row)])),
    operations: operations(rows),
    components: {
      messages: Object.fromEntries(rows.map(([topic, row]) => [topic, message(topic, row, side)])),
      schemas: {
        ...schemas,
        ...Object.fromEntries(rows.flatMap(([topic, row]) => schemasOf(topic, row, side))),
      },
      securitySchemes: {
        standardWebhooks: {
          type: 'httpApiKey',
          in: 'header',
          name: 'webhook-signature',
          description: signature,
        },
      },
    },
  };
}

const CONTENT_TYPE = 'application/cloudevents+json';

const RECEIVED_DESCRIPTION =
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

const POSTED_DESCRIPTION =
  `The events of a producer, as it posts them to \`POST /api/events\`: one CloudEvent 1.0, or at most 100 as
\`application/cloudevents-batch+json\`, signed by Standard Webhooks. All events of a request are recorded, in its order,
or none. After 429, 5xx or no answer send the same request again: an \`id\` that is known of the same \`source\` and
\`type\` is a duplicate, and 409 \`conflicting_duplicate\` with other data. \`data\` is the topic's payload.
\`x-personal-data\` marks personal data. If only events with the same value in a field are ordered, \`x-ordered-by\`
names that field.`.replaceAll('\n', ' ');

const SECURITY = [{ $ref: '#/components/securitySchemes/standardWebhooks' }];

/** A subscriber's address is configuration: `SUBSCRIBER_<NAME>_URL`. */
const SUBSCRIBER_SERVER = {
  host: '{host}',
  pathname: '{path}',
  protocol: 'https',
  description: 'A subscriber elsewhere, at SUBSCRIBER_<NAME>_URL.',
  variables: {
    host: { description: 'The host.', examples: ['accounting.example.no'] },
    path: { description: 'The path that receives the events of all its topics.', examples: ['/events'] },
  },
  security: SECURITY,
};

const BUS_SERVER = {
  host: '{host}',
  pathname: '/api/events',
  protocol: 'https',
  description: 'The bus.',
  variables: { host: { description: 'The host of the bus.', examples: ['postbud.example.no'] } },
  security: SECURITY,
};

const signatureWith = (secret: string) =>
  `\`v1,\` and the base64 HMAC-SHA256 of \`<webhook-id>.<webhook-timestamp>.<body>\` with ${secret}, base64 after \`whsec_\`. See https://www.standardwebhooks.com.`;

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
    // Booleans and not the constant `true`, for which generators write wrong code.
    erased: z
      .boolean()
      .optional()
      .meta({ description: 'True where personal data in the payload was overwritten, else absent.' }),
    previousid: z.uuid().optional().meta({
      description:
        'The id of the event just before this one in its order, whatever became of it. Absent for the first one, and where those before it are no longer kept.',
    }),
    previousskipped: z.boolean().optional().meta({
      description:
        'True where the event before this one was given up: it is a dead letter, or an operator skipped or dismissed it. Else absent.',
    }),
  })
  .meta({ title: 'CloudEvent', description: 'A CloudEvent 1.0 in JSON, without its data.' });

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
  .meta({ title: 'DeliveryHeaders', description: 'The headers of a delivery over HTTP.' });

const RECEIVED: Side = {
  description: RECEIVED_DESCRIPTION,
  servers: { subscriber: SUBSCRIBER_SERVER },
  signature: signatureWith('the subscriber’s secret (SUBSCRIBER_<NAME>_SECRET)'),
  schemas: {
    CloudEvent: jsonSchemaOf(envelope, 'draft-07'),
    DeliveryHeaders: jsonSchemaOf(headers, 'draft-07'),
  },
  sourceOf: (producer) => `/postbud/${producer}`,
  example: {
    id: '019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77',
    time: '2026-02-21T09:30:00.000Z',
    datacontenttype: 'application/json',
    sequence: '48213',
    correlationid: '5f0a4d3c-8a3e-4c55-9a35-0c7c4d0f3b1e',
  },
};

function postedAs({ shape }: z.ZodObject): Side {
  const { properties, required } = jsonSchemaOf(z.object(shape), 'draft-07');
  // Without the payload, which each topic describes, and without attributes that are refused.
  const attributes = Object.entries(properties ?? {}).filter(
    ([name, schema]) => name !== 'data' && isSchema(schema) && schema.not === undefined,
  );
  return {
    description: POSTED_DESCRIPTION,
    servers: { bus: BUS_SERVER },
    signature: signatureWith('the producer’s secret (PRODUCER_<NAME>_SECRET)'),
    schemas: {
      CloudEvent: {
        title: 'CloudEvent',
        type: 'object',
        properties: Object.fromEntries(attributes),
        required: required?.filter((name) => name !== 'data') ?? [],
      },
    },
    sourceOf: (producer) => producer,
    example: { id: '48213-7' },
  };
}

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

function operations(
  rows: readonly (readonly [string, Topic])[],
  subscriptionOf?: SubscriptionOf,
): Readonly<Record<string, object>> {
  return Object.fromEntries(rows.flatMap(([topic, row]) => operationsOf(topic, row, subscriptionOf)));
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

function message(topic: string, row: Topic, side: Side) {
  return {
    name: topic,
    title: topic,
    summary: row.description,
    contentType: CONTENT_TYPE,
    ...(side.schemas.DeliveryHeaders && { headers: { $ref: '#/components/schemas/DeliveryHeaders' } }),
    payload: { $ref: `#/components/schemas/${schemaNames(topic).event}` },
    correlationId: { location: '$message.payload#/correlationid' },
    examples: [{ name: 'event', summary: row.description, payload: example(topic, row, side) }],
    'x-schema-version': row.version,
  };
}

/** Names the schemas of a topic as generators of code name its classes: `PaymentCaptured` and `PaymentCapturedEvent`. */
function schemaNames(topic: string): { readonly payload: string; readonly event: string } {
  const payload = pascalCase(topic);
  return { payload, event: `${payload}Event` };
}

function schemasOf(
  topic: string,
  { producer, version, payload, description }: Topic,
  { sourceOf }: Side,
): readonly (readonly [name: string, schema: JsonSchema])[] {
  const names = schemaNames(topic);
  const event: JsonSchema = {
    title: names.event,
    description,
    allOf: [
      { $ref: '#/components/schemas/CloudEvent' },
      {
        type: 'object',
        properties: {
          type: { type: 'string', const: topic },
          source: { type: 'string', const: sourceOf(producer) },
          // As a range, because generators write wrong code for a constant that is a number.
          schemaversion: { type: 'integer', minimum: version, maximum: version },
          data: { $ref: `#/components/schemas/${names.payload}` },
        },
        required: ['data'],
      },
    ],
  };
  return [
    [names.event, event],
    [names.payload, titled(jsonSchemaOf(payload, 'draft-07'), names.payload)],
  ];
}

/** Gives a title to each schema of which generators of code make a class of its own. */
function titled(schema: JsonSchema, title: string): JsonSchema {
  const { properties, items, anyOf } = schema;
  const isClass = schema.type === 'object' || schema.enum !== undefined || anyOf !== undefined;
  return {
    ...(isClass && { title }),
    ...schema,
    ...(properties && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([name, inner]) => [name, titledIn(inner, title + pascalCase(name))]),
      ),
    }),
    ...(isSchema(items) && { items: titled(items, `${title}Item`) }),
    ...(anyOf && { anyOf: anyOf.map((inner, index) => titledIn(inner, `${title}${index + 1}`)) }),
  };
}

const isSchema = (value: unknown): value is JsonSchema =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function titledIn<Inner>(inner: Inner, title: string): Inner | JsonSchema {
  return isSchema(inner) ? titled(inner, title) : inner;
}

function pascalCase(name: string): string {
  return name.replaceAll(/(?:^|[^A-Za-z0-9]+)([A-Za-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

/** An event as it looks on this side: the topic's example in an invented envelope. */
function example(topic: string, row: Topic, { sourceOf, example: attributes }: Side) {
  const { version, producer, example: data } = row;
  const key = row.orderingKey?.(row.payload.parse(data));
  const isReceived = 'sequence' in attributes;
  return {
    specversion: '1.0',
    ...attributes,
    source: sourceOf(producer),
    type: topic,
    schemaversion: version,
    ...(key !== undefined && isReceived && { partitionkey: key }),
    data,
  };
}
