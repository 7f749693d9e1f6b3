import * as z from 'zod';

import { catalog, isTopicName, topics } from '../../bus/catalog/catalog.ts';
import { readDue } from '../../bus/outbox/due.ts';
import { InvalidPayload } from '../../bus/outbox/errors.ts';
import { outboxEvent } from '../../bus/outbox/record.ts';
import { answered, JSON_TYPE, refused } from '../../platform/http/operation.ts';
import type { Operation } from '../../platform/http/operation.ts';
import { nearest } from '../../platform/nearest.ts';
import { isStorable, NOT_STORABLE, unstorable } from '../../platform/storable.ts';
import { dedupeKeyOf, SOURCE } from './source.ts';

const MOST_CHARACTERS = 255;
const LENGTH = `expected 1 to ${MOST_CHARACTERS} characters`;

const storable = z.string().refine(isStorable, NOT_STORABLE);

/** What is kept in a column of its own, and looked up. */
const key = storable.min(1, LENGTH).max(MOST_CHARACTERS, LENGTH);

const orderingKey = storable.max(MOST_CHARACTERS, `expected at most ${MOST_CHARACTERS} characters`);

const topicNames = topics().map(([name]) => name);

const topic = z.string().check(({ value, issues }) => {
  if (isTopicName(value)) return;
  const meant = nearest(value, topicNames);
  const advice = meant === null ? 'npx postbud catalog lists the topics' : `did you mean '${meant}'?`;
  issues.push({ code: 'custom', input: value, message: `unknown topic; ${advice}` });
});

/** When a timer is due; `never` cancels it. */
const at = z.string().check(({ value, issues }) => {
  if (value === NEVER) return;
  const due = readDue(value);
  if ('expected' in due) issues.push({ code: 'custom', input: value, message: `${due.expected}, or never` });
});

/** What `at` says of a timer that is to be cancelled. */
export const NEVER = 'never';

/** A CloudEvent as a producer posts it. Attributes that it does not name are left out. */
export const cloudEvent = z
  .object({
    specversion: z.literal('1.0', 'expected 1.0'),
    id: key.meta({
      description:
        'The producer’s own id of the event. The same again from the same `source` and of the same `type` is a duplicate for as long as the first one is kept, and `conflicting_duplicate` with other data.',
    }),
    source: key
      .regex(
        SOURCE,
        'expected the producer’s name or a URI that ends in it, for example bookings or https://bookings.example.no/bookings',
      )
      .meta({
        description:
          'The producer, by its name in the catalog, or a URI reference whose last part, behind `/`, `:` or `#`, is that name.',
      }),
    type: topic.meta({ description: 'A topic of the catalog, such as `booking.approved`.' }),
    datacontenttype: storable
      .regex(/^application\/(?:[\w.+-]+\+)?json\b/i, 'expected application/json')
      .optional(),
    data: z.unknown().optional().meta({ description: 'The payload.' }),
    data_base64: z.never('expected the payload as JSON, in data').optional(),
    schemaversion: z.coerce
      .number()
      .int()
      .positive()
      .optional()
      .meta({ description: 'The payload’s version. By default the newest one that fits.' }),
    partitionkey: orderingKey.optional().meta({
      description:
        'Narrows the order to the topic’s events with the same key; an empty one is the order of the whole topic. By default the topic’s own.',
    }),
    orderingkey: orderingKey.optional().meta({ description: 'Another name for `partitionkey`.' }),
    correlationid: key.optional(),
    causationid: key.optional(),
    traceparent: key.optional(),
    at: at.optional().meta({
      description:
        'Sets a timer: the event happens then. An instant, or a duration such as `24h`; at most a year ahead. With `never`, cancels the timer of the `timerkey`.',
    }),
    timerkey: key.optional().meta({
      description: 'With `at`: names the timer in its topic. The same key again moves it.',
    }),
  })
  .superRefine((event, context) => {
    const { type, data, schemaversion, timerkey, partitionkey = '', orderingkey = partitionkey } = event;
    if (event.partitionkey !== undefined && orderingkey !== partitionkey)
      context.addIssue({
        code: 'custom',
        path: ['orderingkey'],
        message: 'expected the same as partitionkey, whose other name it is: send one of them',
      });
    const ownKey = dedupeKeyOf(event);
    if (ownKey !== event.id && ownKey.length > MOST_CHARACTERS)
      context.addIssue({
        code: 'custom',
        path: ['id'],
        message: `expected at most ${MOST_CHARACTERS} characters together with source`,
      });
    if (timerkey === undefined ? event.at === NEVER : event.at === undefined)
      context.addIssue({
        code: 'custom',
        path: [timerkey === undefined ? 'timerkey' : 'at'],
        message: timerkey === undefined ? 'expected with at: never' : 'expected with at',
      });
    const noteInData = (issues: InvalidPayload['issues']) => {
      for (const { path, message } of issues)
        context.addIssue({ code: 'custom', path: ['data', ...path.split('.').filter(Boolean)], message });
    };
    // The database is sent `data` as it came, with fields that no schema names.
    const { issues } = new InvalidPayload(type, unstorable(data));
    if (issues.length > 0) return noteInData(issues);
    if (event.at === NEVER) return;
    if (data === undefined)
      return context.addIssue({ code: 'custom', path: ['data'], message: 'expected a value, got nothing' });
    if (!isTopicName(type)) return;
    const { version } = catalog[type];
    if (schemaversion !== undefined && schemaversion > version) {
      const message = `this bus has version ${version} of ${type}: deploy the release that has version ${schemaversion} first`;
      context.addIssue({ code: 'custom', path: ['schemaversion'], message });
      return;
    }
    noteInData(wrongIn(type, data, schemaversion));
  })
  .meta({ id: 'ProducedEvent', description: 'A CloudEvent 1.0.' });

export type ProducedEvent = z.output<typeof cloudEvent>;

/** Finds what is wrong with a payload. The database has the schemas of earlier versions, and checks against those. */
function wrongIn(topicName: keyof typeof catalog, data: unknown, version: number | undefined) {
  const newest: number = catalog[topicName].version;
  if (version !== undefined && version < newest) return [];
  try {
    outboxEvent(topicName, data);
    return [];
  } catch (error) {
    if (!(error instanceof InvalidPayload)) throw error;
    return version === undefined && newest > 1 ? [] : error.issues;
  }
}

/** Most events of a request. */
const MOST_EVENTS = 100;

export const eventBatch = z.array(cloudEvent).max(MOST_EVENTS);

/** Of a batch, and of what a subscriber elsewhere gets. */
export const EVENTS_LIMIT_BYTES = 1024 * 1024;

const taken = z
  .object({
    events: z.array(
      z.object({
        id: z.string().meta({ description: 'The producer’s own id.' }),
        eventId: z
          .uuid()
          .nullable()
          .meta({ description: 'The id of the event on the bus; null where there was no timer to cancel.' }),
        duplicate: z.boolean().meta({ description: 'Whether the event was recorded earlier.' }),
      }),
    ),
  })
  .meta({
    id: 'EventsTaken',
    description: 'The events of the request, in its order. All of them are recorded.',
  });

export type Taken = z.output<typeof taken>;

const APPROVED = {
  specversion: '1.0',
  id: 'bookings-48213-approved',
  source: 'bookings',
  type: 'booking.approved',
  data: catalog['booking.approved'].example,
};
const CAPTURED = {
  ...APPROVED,
  id: 'payments-1',
  type: 'payment.captured',
  data: catalog['payment.captured'].example,
};

const EVENT_TYPE = 'application/cloudevents+json';
const BATCH_TYPE = 'application/cloudevents-batch+json';
const signed = { 'webhook-id': 'msg_01J9ZK3V7Q' };

/** Of an event in binary mode, whose attributes are headers. */
const payload = z.unknown().meta({ description: 'The payload of an event in binary mode.' });

const { data: _data, data_base64: _base64, datacontenttype: _type, ...inHeaders } = cloudEvent.shape;

/** The attributes that are headers in binary mode, where `content-type` is the type of the data. */
export const attributes: Readonly<Record<string, z.ZodType>> = inHeaders;

export const eventsRoute = {
  id: 'postEvents',
  method: 'post',
  path: '/api/events',
  tag: 'Event bus',
  summary: 'Record events of a producer elsewhere',
  description:
    'For producers without this database. Takes one CloudEvent, as `application/cloudevents+json` or in binary mode (its attributes as `ce-` headers, its data as `application/json`), or a batch of at most 100, and records all of them or none. Answers 200 once they are recorded, also for duplicates; after 429, 5xx or no answer, send the same request again. It is signed by Standard Webhooks with a secret of PRODUCER_<NAME>_SECRET, of which the timestamp may be off by 300 seconds.',
  access: 'producer',
  parameters: [
    { in: 'header', name: 'webhook-id', description: 'The request’s own id.', schema: z.string().max(255) },
    {
      in: 'header',
      name: 'webhook-timestamp',
      description: 'The time of signing, in Unix seconds.',
      schema: z.string().regex(/^\d+$/),
    },
    ...Object.entries(attributes).map(([name, schema]) => ({
      in: 'header' as const,
      name: `ce-${name}`,
      description: `\`${name}\` in binary mode, percent-encoded.`,
      schema: schema.optional(),
    })),
  ],
  body: {
    schema: z.union([cloudEvent, eventBatch]),
    byType: { [EVENT_TYPE]: cloudEvent, [BATCH_TYPE]: eventBatch, [JSON_TYPE]: payload },
    limitBytes: EVENTS_LIMIT_BYTES,
  },
  answers: [{ status: 200, description: 'The events are recorded.', content: { [JSON_TYPE]: taken } }],
  problems: [
    'validation_failed',
    'incomplete_body',
    'invalid_signature',
    'not_your_topic',
    'conflicting_duplicate',
    'body_too_large',
    'unsupported_media_type',
    'unsupported_encoding',
    'rate_limited',
    'events_not_configured',
    'database_unavailable',
  ],
  examples: {
    'an-event': {
      summary: 'One event',
      parameters: signed,
      type: EVENT_TYPE,
      json: APPROVED,
      answer: answered({
        events: [{ id: APPROVED.id, eventId: '019c7f40-11ac-7c2e-9d55-7b1f6a0c3d21', duplicate: false }],
      }),
    },
    'a-batch': {
      summary: 'A batch, of which the first was sent before',
      parameters: signed,
      type: BATCH_TYPE,
      json: [APPROVED, { ...APPROVED, id: 'bookings-48214-approved' }],
      answer: answered({
        events: [
          { id: APPROVED.id, eventId: '019c7f40-11ac-7c2e-9d55-7b1f6a0c3d21', duplicate: true },
          {
            id: 'bookings-48214-approved',
            eventId: '019c7f40-2b7d-7e10-8a6b-0d4f5e6a7b90',
            duplicate: false,
          },
        ],
      }),
    },
    'in-binary-mode': {
      summary: 'One event in binary mode',
      parameters: {
        ...signed,
        'ce-specversion': '1.0',
        'ce-id': 'bookings-48215-approved',
        'ce-source': 'https://bookings.example.no/bookings',
        'ce-type': APPROVED.type,
      },
      type: JSON_TYPE,
      json: APPROVED.data,
      answer: answered({
        events: [
          {
            id: 'bookings-48215-approved',
            eventId: '019c7f40-3c11-7d45-9b1f-5a6c7d8e9f01',
            duplicate: false,
          },
        ],
      }),
    },
    'an-id-of-another-fact': {
      summary: 'With the id of another fact',
      parameters: signed,
      type: EVENT_TYPE,
      json: { ...APPROVED, data: { ...APPROVED.data, bookingId: 'bkg_other' } },
      answer: refused('conflicting_duplicate', {
        issues: [
          {
            path: 'id',
            pointer: '/id',
            code: 'conflicting_duplicate',
            message: 'expected an id of its own: the event recorded for it differs in data',
          },
        ],
      }),
    },
    'an-unknown-topic': {
      summary: 'Of an unknown topic',
      parameters: signed,
      type: EVENT_TYPE,
      json: { ...APPROVED, type: 'booking.aproved' },
      answer: refused('validation_failed', {
        detail: "type: unknown topic; did you mean 'booking.approved'?",
        issues: [
          {
            path: 'type',
            pointer: '/type',
            code: 'custom',
            message: "unknown topic; did you mean 'booking.approved'?",
          },
        ],
      }),
    },
    'of-another-producer': {
      summary: 'Of another producer’s topic',
      parameters: signed,
      type: EVENT_TYPE,
      json: CAPTURED,
      answer: refused('not_your_topic', {
        detail: 'payment.captured is a topic of payments, not of bookings.',
      }),
    },
    unsigned: {
      summary: 'Without a signature',
      parameters: signed,
      type: EVENT_TYPE,
      json: APPROVED,
      answer: refused('invalid_signature'),
    },
  },
} satisfies Operation;
