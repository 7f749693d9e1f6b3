import * as z from 'zod';

import { refusingReplays } from '../../bus/deliveries/subscription.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import { watchIncidents } from '../../components/incidents/watch.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { maxAttemptsOf } from '../kit/handling.ts';
import { listedOf } from '../kit/listed-delivery.ts';
import * as shape from '../kit/shapes.ts';
import {
  DETAIL,
  blockedLane,
  haltingDeadLetter,
  incidentAction,
  incidentReplay,
  owedDeadLetter,
  owedGroup,
  waitingTopic,
} from './detail-statement.ts';
import type { Found } from './detail-statement.ts';
import { incident, incidentOf } from './incident.ts';

/** As many as a page lists. */
const LISTED_LANES = 20;

export const incidentView = incident
  .extend({
    generatedAt: shape.instant,
    lanes: z
      .array(blockedLane)
      .max(LISTED_LANES)
      .meta({ description: 'Its blocked lanes, the next attempt first.' }),
    halts: z
      .array(haltingDeadLetter)
      .max(20)
      .meta({ description: 'Its dead letters that halt lanes, the longest first.' }),
    topics: z
      .array(waitingTopic)
      .max(20)
      .meta({ description: 'Of an outage: the topics whose deliveries wait, the most first.' }),
    deadLetters: z.array(owedDeadLetter).max(10).meta({ description: 'Its newest dead letters.' }),
    groups: z
      .array(owedGroup)
      .max(1)
      .meta({ description: 'The error group of its dead letters, while it has any.' }),
    refusesReplays: z.boolean().meta({
      description:
        'Whether the subscriber refuses replays of the topic: its dead letters are settled otherwise, then dismissed.',
    }),
    dismissed: shape.count.meta({
      description: 'Its dead letters that operators dismissed and that are still on record.',
    }),
    replays: z.array(incidentReplay).max(3).meta({ description: 'Newest first.' }),
    others: z
      .array(
        incident.pick({
          incidentId: true,
          topic: true,
          state: true,
          sentence: true,
          lastError: true,
          openedAt: true,
        }),
      )
      .max(10)
      .meta({
        description:
          'Other open incidents of the same subscriber, the first failure first: with this one they are its story.',
      }),
    actions: z.array(incidentAction).max(20).meta({ description: 'What operators did on it, newest first.' }),
  })
  .meta({
    id: 'IncidentView',
    description: 'One incident, with what it blocks, what it owes and what was done.',
  });

export type IncidentView = z.output<typeof incidentView>;
export type IncidentReplay = z.output<typeof incidentReplay>;

/**
 * Reads one incident as it is now.
 *
 * @param attached tells whose handlers refuse replays, and how many attempts a delivery has.
 * @param most blocked lanes.
 * @returns null for an unknown one.
 */
export async function readIncident(
  db: Database,
  id: string,
  attached: readonly AttachedSubscriber[] = [],
  most = LISTED_LANES,
): Promise<IncidentView | null> {
  await watchIncidents(db);
  const [row] = await run<{ found: Found }>(driverOf(db), { text: DETAIL, values: [id, most] });
  if (!row) return null;
  const { incident: one, lanes, halts, deadLetters, replays, others, ...found } = row.found;
  const topic = one.topic ?? '';
  return {
    ...incidentOf(one),
    ...found,
    lanes: lanes.map((lane) => ({
      ...listedOf(topic, lane),
      maxAttempts: maxAttemptsOf(topic, one.subscriber, attached),
    })),
    halts: halts.map((halt) => listedOf(topic, halt)),
    deadLetters: deadLetters.map((letter) => listedOf(topic, letter)),
    refusesReplays: refusingReplays(attached).includes(`${topic} ${one.subscriber}`),
    replays: replays.map(({ failedAgain, ...replay }) => ({
      ...replay,
      failedAgain: failedAgain.map((letter) => listedOf(topic, letter)),
    })),
    others: others.map((other) => {
      const { incidentId, topic: of, state, sentence, lastError, openedAt } = incidentOf(other);
      return { incidentId, topic: of, state, sentence, lastError, openedAt };
    }),
  };
}
