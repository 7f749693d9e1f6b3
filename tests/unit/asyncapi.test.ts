import { context } from '@opentelemetry/api';
import { Parser } from '@asyncapi/parser';
import { Ajv } from 'ajv';
import addFormats from 'ajv-formats';
import { afterEach, beforeAll, describe, expect, test, vi } from 'vitest';

import { catalog, topics } from '../../lib/bus/catalog/catalog.ts';
import type { Topic } from '../../lib/bus/catalog/topic.ts';
import { waitAfter } from '../../lib/bus/subscribers/backoff.ts';
import type { BusEvent, DeliveryContext } from '../../lib/bus/subscribers/subscriber.ts';
import { topicsOf } from '../../lib/bus/subscribers/subscriber.ts';
import { cloudEvent } from '../../lib/components/remote/cloud-event.ts';
import { remoteSubscriber } from '../../lib/components/remote/remote-subscriber.ts';
import { cloudEvent as postedEvent } from '../../lib/edge/events/route.ts';
import {
  asyncApi,
  asyncApiOfProducer,
  asyncApiOfSubscriber,
} from '../../lib/elsewhere/catalog-description/asyncapi.ts';
import { contextOf } from '../../lib/platform/telemetry/continued-trace.ts';
import { HOUR, MINUTE } from '../../lib/platform/time.ts';

const rows = topics();
const text = JSON.stringify(asyncApi());

interface Document {
  readonly info: { readonly description: string };
  readonly servers: { readonly subscriber: { readonly security: readonly object[] } };
  readonly channels: Record<string, { readonly address: string; readonly 'x-ordered-by'?: string }>;
  readonly operations: Record<
    string,
    { readonly action: string; readonly channel: { readonly $ref: string } }
  >;
  readonly components: {
    readonly messages: Record<
      string,
      { readonly payload: object; readonly examples: [{ readonly payload: object }] }
    >;
    readonly schemas: Record<string, { readonly title: string; readonly properties: object }>;
  };
}
const document = JSON.parse(text) as Document;

/** Validates as the document says a message of the topic must be. */
function validatorOf(topic: string, { components }: Pick<Document, 'components'> = document) {
  const ajv = new Ajv({ strict: false, allErrors: true, formats: { 'idn-email': /@/ } });
  addFormats.default(ajv);
  const { messages, schemas } = components;
  const validate = ajv.compile({ ...messages[topic]!.payload, components: { schemas } });
  return (value: unknown) => (validate(value) ? [] : validate.errors);
}

describe('the AsyncAPI document', () => {
  test('the document is valid AsyncAPI 3.0 to the project’s own parser', async () => {
    const { document: parsed, diagnostics } = await new Parser().parse(text);
    // It would have us write version 3.1.0.
    const found = diagnostics.filter(({ code }) => code !== 'asyncapi-latest-version');
    expect(found.map(({ code, message, path }) => `${code} at ${path.join('.')}: ${message}`)).toEqual([]);
    expect(parsed?.version()).toBe('3.0.0');
    expect(parsed?.channels().length).toBe(rows.length);
  });

  test('the parser refuses a reference that leads nowhere', async () => {
    const channel = {
      ...document.channels['payment.captured'],
      messages: { event: { $ref: '#/components/gone' } },
    };
    const broken = { ...document, channels: { 'payment.captured': channel }, operations: {}, components: {} };
    const { diagnostics } = await new Parser().parse(JSON.stringify(broken));
    expect(diagnostics).toContainEqual(
      expect.objectContaining({
        severity: 0,
        path: expect.arrayContaining(['payment.captured', '$ref']) as unknown,
      }),
    );
  });

  test('the document has an operation for each producer and subscriber of every topic', () => {
    const told = Object.entries(document.operations).map(
      ([name, { action, channel }]) => `${name.split('.')[0]} ${action} ${channel.$ref}`,
    );
    const expected = rows.flatMap(([topic, { producer, subscribers }]) => [
      `${producer} send #/channels/${topic}`,
      ...subscribers.map((name) => `${name} receive #/channels/${topic}`),
    ]);
    expect(told.toSorted()).toEqual(expected.toSorted());
  });

  test('the document says what each channel is ordered by', () => {
    const told = Object.entries(document.channels).map(([topic, channel]) => [
      topic,
      channel['x-ordered-by'],
    ]);
    expect(told).toEqual(rows.map(([topic, { orderedBy }]) => [topic, orderedBy]));
  });

  test('the document describes the retries and the signature', () => {
    expect([1, 2, 3, 4, 5].map((attempt) => waitAfter(attempt, 5))).toEqual([
      1 * MINUTE,
      5 * MINUTE,
      30 * MINUTE,
      6 * HOUR,
      null,
    ]);
    expect(document.info.description).toContain('after 1 minute, 5 minutes, 30 minutes and 6 hours.');
    expect(document.servers.subscriber.security).toEqual([
      { $ref: '#/components/securitySchemes/standardWebhooks' },
    ]);
  });

  test('every schema of which a generator makes a class has a title of its own, and a component is named by its title', () => {
    const titles: string[] = [];
    const look = (value: unknown): void => {
      if (typeof value !== 'object' || value === null) return;
      if ('enum' in value || ('type' in value && value.type === 'object' && 'properties' in value)) {
        const isPart = !('title' in value) && JSON.stringify(value).includes('"const":');
        if (!isPart) titles.push((value as { title: string }).title);
      }
      for (const inner of Object.values(value)) look(inner);
    };
    const { schemas } = document.components;
    look(schemas);
    expect(titles).not.toContain(undefined);
    expect(titles.length).toBeGreaterThan(200);
    expect(titles.filter((title, index) => titles.indexOf(title) !== index)).toEqual([]);
    expect(Object.entries(schemas).map(([, { title }]) => title)).toEqual(Object.keys(schemas));
    expect(titles).toEqual(expect.arrayContaining(['PaymentCaptured', 'LedgerEntryPostedLinesItem']));
  });

  test('the document marks personal data without our own keyword', () => {
    expect(text.match(/"x-personal-data":true/g)!.length).toBeGreaterThan(20);
    expect(text).not.toContain('"personal"');
  });
});

describe('a message', () => {
  const eventOf = (topic: string, row: Topic) => {
    const payload = row.payload.parse(row.example);
    return {
      id: '019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77',
      topic,
      payload,
      version: row.version,
      producer: row.producer,
      createdAt: new Date('2026-02-21T09:30:00.000Z'),
      seq: 48_213,
      orderingKey: row.orderingKey?.(payload) ?? '',
      correlationId: '5f0a4d3c-8a3e-4c55-9a35-0c7c4d0f3b1e',
      causationId: null,
      traceparent: null,
      erased: false,
    } as BusEvent;
  };
  const sent: Record<string, object> = {};
  beforeAll(() => {
    for (const [topic, row] of rows) sent[topic] = cloudEvent(eventOf(topic, row));
  });
  afterEach(() => void vi.unstubAllGlobals());

  const TRACEPARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';

  test.each(rows)('a message of %s is described as remote subscribers get it', (topic) => {
    expect(validatorOf(topic)(sent[topic])).toEqual([]);
    expect(document.components.messages[topic]!.examples[0].payload).toEqual(sent[topic]);
  });

  test('a message with every attribute has just the described names', () => {
    const all = {
      ...eventOf('payment.captured', catalog['payment.captured']),
      causationId: '019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77',
      orderingKey: 'bkg_48213',
      traceparent: TRACEPARENT,
      erased: true,
    };
    const event = cloudEvent(all, { id: '019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a76', wasSkipped: true });
    expect(validatorOf('payment.captured')(event)).toEqual([]);
    const { data: _, ...attributes } = event;
    const { properties } = document.components.schemas['CloudEvent']!;
    expect(Object.keys(properties).toSorted()).toEqual(Object.keys(attributes).toSorted());
  });

  test('a message comes with the described headers, and no others', async () => {
    let headers: Record<string, string> = {};
    vi.stubGlobal('fetch', async (_: string, init: { headers: Record<string, string> }) => {
      headers = init.headers;
      return new Response();
    });
    const secret = `whsec_${Buffer.alloc(32, 1).toString('base64')}`;
    const { handlers } = remoteSubscriber({ name: 'ledger', url: 'https://ledger.example.no/', secret });
    const event = eventOf('payment.captured', catalog['payment.captured']);
    const { signal } = new AbortController();
    await context.with(contextOf(TRACEPARENT)!, async () => {
      await handlers.get('payment.captured')!(event, { signal, attempt: 1 } as DeliveryContext);
    });
    const { 'content-type': type, ...described } = headers;
    expect(type).toMatch(/^application\/cloudevents\+json/);
    const { properties } = document.components.schemas['DeliveryHeaders']!;
    expect(Object.keys(described).toSorted()).toEqual(Object.keys(properties).toSorted());
    const ajv = new Ajv({ strict: false, allErrors: true });
    addFormats.default(ajv);
    const validate = ajv.compile(document.components.schemas['DeliveryHeaders']!);
    expect(validate(described) ? [] : validate.errors).toEqual([]);
  });

  test.each([
    ['of another topic', { type: 'payment.failed' }],
    ['of another version', { schemaversion: 2 }],
    ['without its payload', { data: undefined }],
    ['whose payload lacks a field', { data: { intentId: 'pi_1' } }],
    ['that was created at no instant', { time: '2026-02-21' }],
  ])('a message with %s does not fit its description', (_, change) => {
    const event = JSON.parse(JSON.stringify({ ...sent['payment.captured'], ...change })) as unknown;
    expect(validatorOf('payment.captured')(event)).not.toEqual([]);
  });

  test('a message may have fields that nobody knows yet', () => {
    const event = { ...sent['payment.captured'], later: 1 };
    expect(validatorOf('payment.captured')(event)).toEqual([]);
  });
});

describe('a document of one component', () => {
  const parsed = async (own: object) => {
    const { diagnostics } = await new Parser().parse(JSON.stringify(own));
    expect(diagnostics.filter(({ code }) => code !== 'asyncapi-latest-version')).toEqual([]);
    return JSON.parse(JSON.stringify(own)) as Document;
  };

  test('has what a subscriber receives, and its operations alone', async () => {
    const own = await parsed(asyncApiOfSubscriber('ledger'));
    const received = topicsOf('ledger');
    expect(Object.keys(own.channels)).toEqual(received);
    expect(Object.keys(own.operations)).toEqual(received.map((topic) => `ledger.receives.${topic}`));
    expect(own.components.messages['payment.captured']).toEqual(
      document.components.messages['payment.captured'],
    );
    expect(Object.keys(own.components.schemas)).not.toContain('BookingCreated');
  });

  test('has what a producer posts, as POST /api/events takes it', async () => {
    const own = await parsed(asyncApiOfProducer('bookings', postedEvent));
    const produced = rows.flatMap(([topic, { producer }]) => (producer === 'bookings' ? [topic] : []));
    expect(Object.keys(own.channels)).toEqual(produced);
    expect(Object.keys(own.operations)).toEqual(produced.map((topic) => `bookings.sends.${topic}`));
    for (const topic of produced) {
      const example = own.components.messages[topic]!.examples[0].payload;
      expect(postedEvent.safeParse(example).success).toBe(true);
      expect(validatorOf(topic, own)(example)).toEqual([]);
      expect(validatorOf(topic, own)({ ...example, source: '/postbud/bookings' })).not.toEqual([]);
    }
  });
});
