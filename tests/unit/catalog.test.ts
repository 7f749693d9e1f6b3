import { describe, expect, test } from 'vitest';
import * as z from 'zod';

import { isTopicName, subscriberNames, topics } from '../../lib/bus/catalog/catalog.ts';
import { email } from '../../lib/bus/catalog/values.ts';
import fixedTopics from '../fixtures/topics.json' with { type: 'json' };

const rows = topics();
/** Components that no topic lists as a subscriber. */
const ONLY_PRODUCERS = ['http', 'inquiries', 'system'];
const listedNames = fixedTopics.map(({ topic }) => topic);

describe('the catalog', () => {
  test('the catalog holds at least 112 topics', () => {
    expect(rows.length).toBeGreaterThanOrEqual(112);
  });

  test.each(fixedTopics)('the catalog holds $topic as the owner’s list has it', (fixed) => {
    const row = rows.find(([name]) => name === fixed.topic)?.[1];
    expect(row).toMatchObject({
      producer: fixed.producer,
      subscribers: fixed.subscribers,
      description: fixed.description,
      listed: true,
    });
  });

  test('the topics of the owner’s list, and no others, are marked as listed', () => {
    const marked = rows.filter(([, row]) => row.listed).map(([name]) => name);
    expect(marked.toSorted()).toEqual(listedNames.toSorted());
  });

  test('the events of a listed topic are in the order of the whole topic', () => {
    const keyed = rows.filter(([, row]) => row.listed && row.orderingKey).map(([name]) => name);
    expect(keyed).toEqual([]);
  });

  test('a topic is known by its exact name only', () => {
    expect(isTopicName('payment.captured')).toBe(true);
    expect(isTopicName('payment.Captured')).toBe(false);
    expect(isTopicName('toString')).toBe(false);
    expect(isTopicName('__proto__')).toBe(false);
  });

  test('an e-mail address with æ, ø or å in its domain is accepted', () => {
    expect(email.safeParse('post@bærum.kommune.no').success).toBe(true);
    expect(email.safeParse('post at bærum').success).toBe(false);
  });
});

describe.each(rows)('%s', (name, row) => {
  test('the topic has a well-formed name', () => {
    expect(name).toMatch(/^[a-z][a-z_]*(\.[a-z0-9][a-z0-9_]*)+$/);
  });

  test('the topic has a known producer and known subscribers, each once', () => {
    expect([...subscriberNames(), ...ONLY_PRODUCERS]).toContain(row.producer);
    expect(row.subscribers.length).toBeGreaterThan(0);
    // The compiler compares them with the registry; a Postgres array takes letters without quotes.
    for (const name of [row.producer, ...row.subscribers]) expect(name).toMatch(/^[a-z]+$/);
    expect(new Set(row.subscribers).size).toBe(row.subscribers.length);
  });

  test('the topic has a sentence as its description, and a version counted from 1', () => {
    expect(row.description).toMatch(/^[A-Z].*\.$/);
    expect(row.version).toBeGreaterThanOrEqual(1);
  });

  test('the topic bounds each of its lists', () => {
    const unbounded: unknown[] = [];
    JSON.stringify(z.toJSONSchema(row.payload, { io: 'input' }), (key, schema: unknown) => {
      if (typeof schema === 'object' && schema !== null && 'items' in schema && !('maxItems' in schema))
        unbounded.push(key);
      return schema;
    });
    expect(unbounded).toEqual([]);
  });

  test('the topic’s example fits its schema and loses nothing to it', () => {
    expect(row.payload.parse(row.example)).toEqual(row.example);
  });

  test('the topic names its ordering key exactly when it has one', () => {
    expect(row.orderedBy === undefined).toBe(row.orderingKey === undefined);
    if (row.orderingKey === undefined || row.orderedBy === undefined) return;
    const key = row.orderingKey(row.payload.parse(row.example));
    expect(key).not.toBe('');
    expect(row.example).toHaveProperty(row.orderedBy, key);
  });
});
