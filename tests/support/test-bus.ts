import { testBus } from 'postbud/testing';
import type { TestBus, TestBusOptions } from 'postbud/testing';
import { test } from 'vitest';

import { catalog } from '../../lib/bus/catalog/catalog.ts';
import type { TopicName } from '../../lib/bus/catalog/catalog.ts';
import type { AttachedSubscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { AnyEvent } from '../../lib/elsewhere/testing/events.ts';

type Open = (subscribers: readonly AttachedSubscriber[], options?: TestBusOptions) => Promise<TestBus>;

/** Vitest's `test` with `open`, which opens a test bus that is closed after the test. */
export const busTest = test.extend('open', async ({}, { onCleanup }): Promise<Open> => {
  const opened: TestBus[] = [];
  onCleanup(async () => {
    for (const bus of opened) await bus.close();
  });
  return async (...given) => {
    const bus = await testBus(...given);
    opened.push(bus);
    return bus;
  };
});

/** Vitest's `test` with `bus`, on which these handlers run. */
export const testOn = (...subscribers: readonly AttachedSubscriber[]) =>
  busTest.extend('bus', ({ open }) => open(subscribers));

type WebhookTopic = Extract<TopicName, `webhook.${string}.received`>;

/** Emits what the intake emits for a webhook. @returns the event's id. */
export async function webhook(
  bus: TestBus,
  topic: WebhookTopic,
  body: Record<string, unknown>,
  eventId: string = catalog[topic].example.eventId,
): Promise<string> {
  const named = body['type'] ?? body['name'];
  const { id } = await bus.emit(topic, {
    eventId,
    eventType: typeof named === 'string' ? named : null,
    body,
  });
  return id;
}

/** The events of the topics that begin so, oldest first. */
export async function eventsOf(bus: TestBus, prefix: string): Promise<AnyEvent[]> {
  return (await bus.events()).filter(({ topic }) => topic.startsWith(prefix));
}
