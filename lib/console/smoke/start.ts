import { eq } from 'drizzle-orm';
import { v7 as uuidv7 } from 'uuid';

import { smokeTests } from '../../../drizzle/schema.ts';
import type { TestWebhook } from '../../../drizzle/schema.ts';
import { SMOKE_TEST } from '../../bus/catalog/smoke-test.ts';
import { recordingStatement } from '../../bus/outbox/record.ts';
import type { OutboxEvent } from '../../bus/outbox/record.ts';
import { noteDue } from '../../platform/db/commits.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';

interface SmokeTestPlan {
  readonly by: string;
  /** Where the webhooks are sent to; null: nowhere. */
  readonly origin: string | null;
  /** Whom the test event is for; without any there is none. */
  readonly subscribers: readonly string[];
  /** Sends the webhooks. */
  readonly send: (smokeTestId: string) => Promise<readonly TestWebhook[]>;
}

/**
 * Starts a smoke test:
 *
 * 1. The test and its event are recorded in one statement; the commit kicks a relay, which hands the event over.
 * 2. Meanwhile a webhook for each provider goes to the deployment's own address, through the platform's edge, as its
 *    provider's do: verified, stored with a receipt, delivered. What the endpoints answer is kept with the test.
 * 3. Whoever asks what became of it reads the event; nothing else is written.
 * 4. Ten minutes later the cron dismisses what is still open (`endSmokeTests`).
 *
 * @returns its id and what the endpoints answered, once all have.
 */
export async function startSmokeTest(
  db: Database,
  plan: SmokeTestPlan,
): Promise<{ readonly id: string; readonly webhooks: readonly TestWebhook[] }> {
  const { by, origin, subscribers, send } = plan;
  const id = uuidv7();
  await run(driverOf(db), recordTest(eventOf(id, subscribers), [id, by, origin]));
  if (subscribers.length > 0) noteDue(db);
  const webhooks = await send(id);
  await db.update(smokeTests).set({ webhooks }).where(eq(smokeTests.id, id));
  return { id, webhooks };
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
      insert into smoke_tests (id, started_at, started_by, origin, subscribers)
      values ($1::uuid, clock_timestamp(), $2::text, $3::text, $14::text::text[])
      returning subscribers
    ),`,
  parameters: 3,
  from: 'from test where cardinality(subscribers) > 0',
  select: 'select from test',
});
