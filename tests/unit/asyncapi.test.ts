import { readFileSync } from 'node:fs';

import { Parser } from '@asyncapi/parser';
import { Ajv } from 'ajv';
import addFormats from 'ajv-formats';
import { beforeAll, describe, expect, test } from 'vitest';

import { documentUrl } from '../../dev/descriptions.ts';
import { catalog } from '../../lib/catalog/catalog.ts';
import type { Topic } from '../../lib/catalog/topic.ts';
import { cloudEvent } from '../../lib/subscribers/http.ts';
import type { BusEvent } from '../../lib/subscribers/subscriber.ts';

const rows: [topic: string, row: Topic][] = Object.entries(catalog);
const text = readFileSync(documentUrl('asyncapi'), 'utf8');

interface Document {
  readonly channels: Record<string, { readonly address: string; readonly 'x-ordered-by'?: string }>;
  readonly operations: Record<
    string,
    { readonly action: string; readonly channel: { readonly $ref: string } }
  >;
  readonly components: {
    readonly messages: Record<
      string,
      { readonly payload: { readonly schema: object }; readonly examples: [{ readonly payload: object }] }
    >;
    readonly schemas: Record<string, object>;
  };
}
const document = JSON.parse(text) as Document;

/** Validates as the document says a message of the topic must be. */
function validatorOf(topic: string) {
  const ajv = new Ajv({ strict: false, allErrors: true, formats: { 'idn-email': /@/ } });
  addFormats.default(ajv);
  const { messages, schemas } = document.components;
  const validate = ajv.compile({ ...messages[topic]!.payload.schema, components: { schemas } });
  return (value: unknown) => (validate(value) ? [] : validate.errors);
}

describe('docs/asyncapi.json', () => {
  test('is AsyncAPI 3.0 to the parser of the AsyncAPI project', async () => {
    const { document: parsed, diagnostics } = await new Parser().parse(text);
    // It would have us write version 3.1.0.
    const found = diagnostics.filter(({ code }) => code !== 'asyncapi-latest-version');
    expect(found.map(({ code, message, path }) => `${code} at ${path.join('.')}: ${message}`)).toEqual([]);
    expect(parsed?.version()).toBe('3.0.0');
    expect(parsed?.channels().length).toBe(rows.length);
  });

  test('would be refused by the parser for one reference that leads nowhere', async () => {
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

  test('has an operation for each producer and each subscriber of every topic, and no other', () => {
    const told = Object.entries(document.operations).map(
      ([name, { action, channel }]) => `${name.split('.')[0]} ${action} ${channel.$ref}`,
    );
    const expected = rows.flatMap(([topic, { producer, subscribers }]) => [
      `${producer} send #/channels/${topic}`,
      ...subscribers.map((name) => `${name} receive #/channels/${topic}`),
    ]);
    expect(told.toSorted()).toEqual(expected.toSorted());
  });

  test('marks what is personal data, and leaves nothing of our own mark', () => {
    expect(text.match(/"x-personal-data": true/g)!.length).toBeGreaterThan(20);
    expect(text).not.toContain('"personal"');
  });
});

describe('a message', () => {
  const sent: Record<string, object> = {};
  beforeAll(() => {
    for (const [topic, row] of rows) {
      const payload = row.payload.parse(row.example);
      const event = {
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
      };
      sent[topic] = cloudEvent(event as BusEvent);
    }
  });

  test.each(rows)('%s is described as subscribers elsewhere get it, with an example like it', (topic) => {
    expect(validatorOf(topic)(sent[topic])).toEqual([]);
    expect(document.components.messages[topic]!.examples[0].payload).toEqual(sent[topic]);
  });

  test('with all that an event may have is described too', () => {
    const event = {
      ...sent['payment.captured'],
      causationid: '019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77',
      partitionkey: 'bkg_48213',
      traceparent: '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
    };
    expect(validatorOf('payment.captured')(event)).toEqual([]);
  });

  test.each([
    ['of another topic', { type: 'payment.failed' }],
    ['of another version', { schemaversion: 2 }],
    ['without its payload', { data: undefined }],
    ['whose payload lacks a field', { data: { intentId: 'pi_1' } }],
    ['that was created at no instant', { time: '2026-02-21' }],
  ])('%s does not fit', (_, change) => {
    const event = JSON.parse(JSON.stringify({ ...sent['payment.captured'], ...change })) as unknown;
    expect(validatorOf('payment.captured')(event)).not.toEqual([]);
  });

  test('may have fields that nobody knows yet', () => {
    const event = { ...sent['payment.captured'], later: 1 };
    expect(validatorOf('payment.captured')(event)).toEqual([]);
  });
});
