import * as z from 'zod';

import { answered, refused } from '../../platform/http/operation.ts';
import { Problem } from '../../platform/http/problem.ts';
import { HOME, smokePath, smokeTestPath } from '../kit/links.ts';
import { listRoute } from '../kit/operation-routes.ts';
import { operatorRoute } from '../kit/route.ts';
import type { Bus } from '../kit/route.ts';
import * as shape from '../kit/shapes.ts';
import { smokeTestExample } from './example.ts';
import { SMOKE, smokeTestsPage } from './list-page.ts';
import { listQuery, readSmokeTests, smokeTestList } from './list.ts';
import { smokePage } from './page.ts';
import { readSmokeTest, recipientsOf } from './read.ts';
import { startSmokeTest } from './start.ts';
import type { SmokeTestPlan } from './start.ts';
import { smokeTest } from './view.ts';

const UNKNOWN = 'Unknown smoke test. Tests are kept for a month.';
const LISTS = [
  { path: 'subscribers', words: 'Subscribers' },
  { path: 'webhooks', words: 'Webhooks' },
];
const NOBODY = '019a0000-0000-7000-8000-000000000009';

export const showDeployment = operatorRoute({
  id: 'readDeployment',
  path: smokePath(),
  scope: 'event-bus:read',
  summary: 'See what this deployment has, and what waits for whom',
  description: 'As of a smoke test, without one.',
  answer: smokeTest,
  csv: LISTS,
  examples: {
    'before-a-test': {
      summary: 'Before a smoke test',
      answer: answered({ ...smokeTestExample, test: null }),
    },
  },
  handle: async ({ bus }) => await readSmokeTest(bus, null),
  page: smokePage,
});

export const beginSmokeTest = operatorRoute({
  id: 'startSmokeTest',
  path: smokePath(),
  scope: 'event-bus:replay',
  summary: 'Send a test through every configured endpoint and every attached subscriber',
  description:
    'Signs a test webhook for each configured provider and sends it to this deployment’s own address, and emits a test event for each attached subscriber that is not paused. Answers when the webhooks are answered, within 10 seconds; ask for the test by its id until everything has arrived. The test webhooks are receipts like others, of the type `postbud.smoke_test`; no figure counts the test event.',
  body: z.object({
    subscriber: shape.subscriberName
      .optional()
      .meta({ description: 'Sends the test event to this subscriber alone, and no webhooks.' }),
  }),
  answer: smokeTest,
  problems: ['unattached'],
  links: {
    progress: {
      operationId: 'readSmokeTest',
      description: 'What has arrived.',
      parameters: { smokeTestId: '$response.body#/test/smokeTestId' },
    },
  },
  examples: {
    'of-a-deployment': { summary: 'A smoke test', json: {}, answer: answered(smokeTestExample) },
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
    const by = operator.subject;
    const id =
      subscriber === undefined
        ? await start(bus, { by, origin: bus.ownUrl(url), subscribers: all })
        : await startSmokeTest(db, { by, origin: url.origin, subscribers: [subscriber], send: noWebhooks });
    return await readSmokeTest(bus, id);
  },
  redirectTo: ({ test }) => (test === null ? null : smokeTestPath(test.smokeTestId)),
});

const noWebhooks = async () => await Promise.resolve([]);

function notTestable(subscriber: string): string {
  return `${subscriber} is paused, or this deployment does not deliver to it, so a test event would wait. Nothing was sent.`;
}

async function start(
  bus: Bus,
  { by, origin, subscribers }: Pick<SmokeTestPlan, 'by' | 'origin' | 'subscribers'>,
): Promise<string> {
  const db = await bus.database();
  const { canSign, send } = bus.testWebhooks();
  const tested = bus
    .webhooks()
    .filter(({ endpoint, provider }) => endpoint === 'configured' && canSign(provider));
  return await startSmokeTest(db, {
    by,
    origin,
    subscribers,
    send: async (smokeTestId) => {
      if (origin === null) return [];
      return await Promise.all(
        tested.map(async ({ provider }) => await send({ provider, origin, smokeTestId })),
      );
    },
  });
}

export const showSmokeTest = operatorRoute({
  id: 'readSmokeTest',
  path: `${HOME}/smoke/{smokeTestId}`,
  scope: 'event-bus:read',
  summary: 'See what of a smoke test arrived where, and after what time',
  parameters: { smokeTestId: z.uuid() },
  answer: smokeTest,
  csv: LISTS,
  unknown: UNKNOWN,
  examples: {
    unknown: {
      summary: 'A test that there is none of',
      parameters: { smokeTestId: NOBODY },
      answer: refused('not_found', { detail: UNKNOWN }),
    },
  },
  handle: async ({ bus, parameters }) => await readSmokeTest(bus, parameters.smokeTestId),
  page: smokePage,
});

export const listSmokeTests = listRoute(SMOKE, {
  id: 'listSmokeTests',
  query: listQuery,
  answer: smokeTestList,
  links: { operationId: 'readSmokeTest', id: 'smokeTestId' },
  example: {
    name: 'newest',
    summary: 'The newest',
    parameters: { limit: 10 },
    view: {
      generatedAt: '2026-02-21T09:31:00.000Z',
      items: [
        {
          smokeTestId: '019c7f40-11ac-7c2e-9d55-7b1f6a0c3d21',
          startedAt: '2026-02-21T09:30:50.000Z',
          startedBy: 'kari@solvik.example.no',
          origin: 'https://postbud.example.no',
          subscribers: 12,
          arrived: 12,
          webhooks: 2,
          accepted: 2,
          endedAt: null,
        },
      ],
      nextCursor: null,
    },
  },
  read: async (bus, query) => await readSmokeTests(await bus.database(), query),
  page: smokeTestsPage,
});

export const smokeRoutes = [showDeployment, beginSmokeTest, showSmokeTest, listSmokeTests];
