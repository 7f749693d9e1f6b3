import { eq } from 'drizzle-orm';
import * as z from 'zod';

import { outages } from '../../../drizzle/schema.ts';
import { requireFirstOfLane } from '../../bus/deliveries/operations/first-of-lane.ts';
import { waitAfter } from '../../bus/subscribers/backoff.ts';
import { refused } from '../../platform/http/operation.ts';
import { driverOf } from '../../platform/db/statement.ts';
import { SECOND } from '../../platform/time.ts';
import { costWords, handlingOf, requireHandled } from '../kit/handling.ts';
import { HOME } from '../kit/links.ts';
import { deliveryId } from '../kit/replay-request.ts';
import { operatorRoute } from '../kit/route.ts';
import * as shape from '../kit/shapes.ts';
import { orProblem, UNKNOWN_DELIVERY } from './not-acted-on.ts';

const price = z
  .object({
    deliveryId: z.string(),
    topic: shape.topic,
    subscriber: z.string(),
    attempt: z.int().positive().nullable().meta({
      description:
        'The attempt that the retry is; null while the subscriber does not answer: a probe is none.',
    }),
    maxAttempts: z.int().positive(),
    waitSeconds: shape.count.nullable().meta({
      description: 'The wait after it if it fails; null if it then becomes a dead letter, or is a probe.',
    }),
    text: z.string(),
  })
  .meta({ id: 'RetryPrice', description: 'What a retry costs. Nothing was retried.' });

/** Of the retry, and of its price. */
export const RETRY_PATH = `${HOME}/deliveries/{deliveryId}/retry`;

/** Says what a retry costs, before it is asked for. */
export const showRetryPrice = operatorRoute({
  id: 'previewRetry',
  path: RETRY_PATH,
  scope: 'event-bus:read',
  summary: 'See what a retry costs',
  parameters: { deliveryId },
  answer: price,
  problems: ['no_such_subscription', 'unattached', 'not_first', 'not_waiting', 'halted', 'under_way'],
  unknown: UNKNOWN_DELIVERY,
  examples: {
    nobody: {
      summary: 'An unknown delivery',
      parameters: { deliveryId: '00000000-0000-7000-8000-000000000000.accounting' },
      answer: refused('not_found', { detail: UNKNOWN_DELIVERY }),
    },
  },
  handle: async ({ parameters, bus }) => {
    const db = await bus.database();
    const { deliveryId: id } = parameters;
    const first = await orProblem(db, id, requireFirstOfLane(driverOf(db), id));
    const { topic, subscriber, attempts } = first;
    requireHandled(topic, subscriber, bus.subscribers());
    const handling = handlingOf(topic, subscriber, bus.subscribers());
    if (typeof handling === 'string') throw new TypeError('it is handled');
    const { maxAttempts } = handling;
    const named = { ...parameters, topic, subscriber, maxAttempts };
    if ((await db.$count(outages, eq(outages.subscriber, subscriber))) > 0) {
      const text = `a probe, which costs no attempt: ${subscriber} does not answer`;
      return { ...named, attempt: null, waitSeconds: null, text };
    }
    const attempt = attempts + 1;
    const waitMs = waitAfter(attempt, maxAttempts);
    const waitSeconds = waitMs === null ? null : waitMs / SECOND;
    return { ...named, attempt, waitSeconds, text: costWords(attempts, maxAttempts) };
  },
});
