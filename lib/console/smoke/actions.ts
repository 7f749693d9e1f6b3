import { eq } from 'drizzle-orm';
import { v7 as uuidv7 } from 'uuid';
import * as z from 'zod';

import { pauses } from '../../../drizzle/schema.ts';
import { SMOKE_TEST } from '../../bus/catalog/smoke-test.ts';
import { recordingStatement } from '../../bus/outbox/record.ts';
import type { OutboxEvent } from '../../bus/outbox/record.ts';
import type { Database } from '../../platform/db/database.ts';
import { noteDue } from '../../platform/db/commits.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { Problem } from '../../platform/http/problem.ts';
import { action } from '../kit/action.ts';
import { knownIn } from '../kit/known-names.ts';
import { eventPath, HOME } from '../kit/links.ts';
import type { Bus } from '../kit/route.ts';
import * as shape from '../kit/shapes.ts';
import { joinNames, quantity } from '../kit/words.ts';

const started = z
  .object({
    smokeTestId: z.uuid().describe('Also the id of its event.'),
    subscribers: z
      .array(z.string())
      .describe(
        'Whom the event is for: whoever is attached and not paused. Empty: there is no event, as in a deployment that does not relay.',
      ),
    paused: z.array(z.string()).describe('Who is left out, because an operator paused it.'),
  })
  .meta({ id: 'SmokeTest', description: 'A smoke test: its event’s own page says what became of it.' });
export type SmokeTest = z.output<typeof started>;

/**
 * Emits a test event to each subscriber. The commit kicks a relay, which hands it over. Ten minutes later the cron dismisses
 * what is still open (`endSmokeTests`).
 */
export const beginSmokeTest = action({
  name: 'smoke-test',
  id: 'startSmokeTest',
  path: `${HOME}/smoke`,
  summary: 'Send a test event to every attached subscriber',
  description:
    'Emits a test event for each attached subscriber that is not paused. Read the event by the test’s id until everybody has it. No figure counts it.',
  body: z.object({
    subscriber: shape.subscriberName.optional().describe('Sends it to this subscriber alone.'),
  }),
  answer: started,
  problems: ['unattached'],
  handle: async ({ bus, operator, body: { subscriber } }) => {
    const db = await knownIn(bus, { subscriber });
    // Where nobody relays it, it would wait for ever.
    const all = bus.relays() ? await recipientsOf(bus, db) : { subscribers: [], paused: [] };
    if (subscriber !== undefined && !all.subscribers.includes(subscriber))
      throw new Problem('unattached', {
        detail: `${subscriber} is paused, or this deployment does not deliver to it, so a test event would wait. Nothing was sent.`,
      });
    const { subscribers, paused } =
      subscriber === undefined ? all : { subscribers: [subscriber], paused: [] };
    const id = uuidv7();
    await run(driverOf(db), recordTest(eventOf(id, subscribers), [id, operator.subject]));
    if (subscribers.length > 0) noteDue(db);
    return { smokeTestId: id, subscribers, paused };
  },
  leads: ({ smokeTestId, subscribers }) => (subscribers.length === 0 ? HOME : eventPath(smokeTestId)),
  button: 'Smoke test',
  done: startedWords,
});

export function startedWords({ subscribers, paused }: SmokeTest): string {
  const words =
    subscribers.length > 0
      ? `Smoke test: sent to ${quantity(subscribers.length, 'subscriber')}. Who has it shows here.`
      : paused.length > 0
        ? 'No event was sent.'
        : 'No event was sent: this deployment does not relay (RELAY=on lets it, if its database is its own), or has no subscriber attached.';
  return words + leftOutWords(paused);
}

/** Names who is left out of a test. */
export function leftOutWords(paused: readonly string[]): string {
  return paused.length === 0
    ? ''
    : ` ${joinNames(paused)} ${paused.length === 1 ? 'is' : 'are'} paused: left out.`;
}

/** Lists whom a test event can be for: whoever is attached and not paused; and who is paused. */
async function recipientsOf(bus: Bus, db: Database): Promise<Pick<SmokeTest, 'subscribers' | 'paused'>> {
  const found = await db.select({ name: pauses.subscriber }).from(pauses).where(eq(pauses.topic, ''));
  const isPaused = (name: string) => found.some((one) => one.name === name);
  const names = [...new Set(bus.subscribers().map(({ name }) => name))].toSorted();
  return { subscribers: names.filter((name) => !isPaused(name)), paused: names.filter(isPaused) };
}

/** Each test has an ordering key of its own, so that none waits for the retry of another. */
function eventOf(id: string, subscribers: readonly string[]): OutboxEvent {
  const { topic, producer, version } = SMOKE_TEST;
  const note = 'A smoke test of the deployment. Answer 2xx and do nothing.';
  return {
    id,
    topic,
    producer,
    version,
    payload: JSON.stringify({ smokeTestId: id, note }),
    subscribers,
    orderingKey: id,
    dedupeKey: null,
    correlationId: id,
    causationId: null,
    traceparent: null,
    timer: null,
  };
}

// The event's subscribers are its eleventh parameter, and the last.
const recordTest = recordingStatement({
  name: 'start_smoke_test',
  ctes: `
    test as (
      insert into smoke_tests (id, started_at, started_by, subscribers)
      values ($1::uuid, clock_timestamp(), $2::text, $13::text::text[])
      returning subscribers
    ),`,
  parameters: 2,
  from: 'from test where cardinality(subscribers) > 0',
  select: 'select from test',
});

export const smokeActions = [beginSmokeTest];
