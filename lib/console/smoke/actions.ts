import { asc, eq } from 'drizzle-orm';
import * as z from 'zod';

import { pauses } from '../../../drizzle/schema.ts';
import type { TestWebhook } from '../../../drizzle/schema.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import { webhookVariable } from '../../platform/config.ts';
import type { Database } from '../../platform/db/connect.ts';
import { answered, refused } from '../../platform/http/operation.ts';
import { Problem } from '../../platform/http/problem.ts';
import { action } from '../kit/action.ts';
import { eventPath, HOME } from '../kit/links.ts';
import type { Bus } from '../kit/route.ts';
import * as shape from '../kit/shapes.ts';
import { followSmokeTest } from './follow.ts';
import { startSmokeTest } from './start.ts';

const started = z
  .object({
    smokeTestId: z.uuid().meta({ description: 'Also the id of its event.' }),
    subscribers: z.array(z.string()).meta({
      description:
        'Whom the event is for: whoever is attached and not paused. Empty: there is no event, as in a deployment that does not relay.',
    }),
    webhooks: z
      .array(
        z.object({
          provider: shape.endpointName,
          status: z.int().nullable().meta({ description: 'Of the endpoint’s answer.' }),
          durationMs: z.int().nonnegative().meta({ description: 'The time until the answer.' }),
          problem: z.string().nullable().meta({ description: 'What is wrong, and what to do.' }),
        }),
      )
      .meta({ description: 'One to each endpoint with a secret that signs.' }),
  })
  .meta({ id: 'SmokeTest', description: 'A smoke test: its event’s own page says what became of it.' });
export type SmokeTest = z.output<typeof started>;

/** Sends a test webhook to each endpoint and a test event to each subscriber. */
export const beginSmokeTest = action({
  name: 'smoke-test',
  id: 'startSmokeTest',
  path: `${HOME}/smoke`,
  summary: 'Send a test through every configured endpoint and every attached subscriber',
  description:
    'Signs a test webhook for each configured provider and sends it to this deployment’s own address, and emits a test event for each attached subscriber that is not paused. Answers when the webhooks are answered, within 10 seconds; read the event by the test’s id until everything has arrived. The test webhooks are receipts like others, of the type `postbud.smoke_test`; no figure counts the test event.',
  body: z.object({
    subscriber: shape.subscriberName
      .optional()
      .meta({ description: 'Sends the test event to this subscriber alone, and no webhooks.' }),
  }),
  answer: started,
  problems: ['unattached'],
  examples: {
    'of-a-deployment': {
      summary: 'A smoke test',
      json: {},
      answer: answered(),
    },
    'nobody-to-test': {
      summary: 'A test event to a subscriber that is not attached',
      json: { subscriber: 'postcards' },
      answer: refused('unattached', { detail: notTestable('postcards') }),
    },
  },
  handle: async ({ bus, operator, url, body: { subscriber } }) => {
    const db = await bus.database();
    // Where nobody relays it, it would wait for ever.
    const all = bus.relays() ? await recipientsOf(db, bus.subscribers()) : [];
    if (subscriber !== undefined && !all.includes(subscriber))
      throw new Problem('unattached', { detail: notTestable(subscriber) });
    const origin = bus.ownUrl(url);
    const subscribers = subscriber === undefined ? all : [subscriber];
    const { id, webhooks } = await startSmokeTest(db, {
      by: operator.subject,
      origin,
      subscribers,
      send: async (smokeTestId) => (subscriber === undefined ? await sendAll(bus, origin, smokeTestId) : []),
    });
    return {
      smokeTestId: id,
      subscribers: [...subscribers],
      webhooks: webhooks.map(({ provider, status, durationMs, problem }) => ({
        provider,
        status,
        durationMs,
        problem,
      })),
    };
  },
  home: ({ smokeTestId, subscribers }) => (subscribers.length === 0 ? HOME : eventPath(smokeTestId)),
  button: 'Smoke test',
  actedOn: {
    shape: z.object({ smokeTestId: z.uuid() }),
    of: ({ smokeTestId }) => ({ smokeTestId }),
  },
  follow: followSmokeTest,
});

function notTestable(subscriber: string): string {
  return `${subscriber} is paused, or this deployment does not deliver to it, so a test event would wait. Nothing was sent.`;
}

/** Lists whom a test event can be for: whoever is attached and not paused. */
async function recipientsOf(db: Database, attached: readonly AttachedSubscriber[]): Promise<string[]> {
  const paused = await db
    .select({ subscriber: pauses.subscriber })
    .from(pauses)
    .where(eq(pauses.topic, ''))
    .orderBy(asc(pauses.subscriber));
  const names = [...new Set(attached.map(({ name }) => name))].toSorted();
  return names.filter((name) => !paused.some(({ subscriber }) => subscriber === name));
}

const NO_ADDRESS = 'this deployment does not know where providers reach it: set PUBLIC_URL';

/** Sends a webhook to each endpoint that is set up, and says which has a wrong variable. */
async function sendAll(bus: Bus, origin: string | null, smokeTestId: string): Promise<TestWebhook[]> {
  const { canSign, send } = bus.testWebhooks();
  const sent = bus.webhooks().flatMap(({ provider, endpoint }) => {
    const unsent = (problem: string) => [
      Promise.resolve({ provider, status: null, durationMs: 0, receiptId: null, problem }),
    ];
    if (endpoint === 'misconfigured')
      return unsent(`${webhookVariable(provider, 'SECRET')} or _SCHEME is wrong: see the log`);
    if (endpoint === 'not_configured' || !canSign(provider)) return [];
    return origin === null ? unsent(NO_ADDRESS) : [send({ provider, origin, smokeTestId })];
  });
  return await Promise.all(sent);
}

export const smokeActions = [beginSmokeTest];
