import * as z from 'zod';

import { refusingReplays } from '../../bus/deliveries/subscription.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import { watchIncidents } from '../../components/incidents/watch.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { maskPersonalData, personalTexts } from '../../platform/masking/personal.ts';
import { subjectOf } from '../../platform/masking/subject.ts';
import { instantOf, instantOrNull } from '../../platform/time.ts';
import * as shape from '../kit/shapes.ts';
import { DETAIL } from './detail-statement.ts';
import type { Found, FoundDelivery, FoundReplay } from './detail-statement.ts';
import { incident, incidentId, incidentOf, incidentState } from './incident.ts';

const delivery = {
  deliveryId: z.string(),
  eventId: z.uuid(),
  subject: z.string().nullable(),
  lastError: shape.lastError.nullable(),
};

const incidentReplay = z
  .object({
    replayId: z.uuid(),
    requestedAt: shape.instant,
    requestedBy: z.string(),
    replayed: shape.count.meta({ description: 'Deliveries of this subscription that were re-queued.' }),
    left: shape.count.meta({ description: 'Deliveries that a paced replay has not put back yet.' }),
    delivered: shape.count,
    pending: shape.count,
    failing: shape.count,
    deadLettered: shape.count,
    confirmedAt: shape.instant
      .nullable()
      .meta({ description: 'When the last one was delivered, once all of them are.' }),
    failedAgain: z
      .array(z.object({ ...delivery, state: shape.state }))
      .max(10)
      .meta({ description: 'Some of those that failed again.' }),
  })
  .meta({ id: 'IncidentReplay', description: 'A replay since the incident began, as far as it has come.' });

export const incidentView = incident
  .extend({
    generatedAt: shape.instant,
    lanes: z
      .array(
        z
          .object({
            ...delivery,
            orderingKey: z.string(),
            attempts: shape.count,
            nextAttemptAt: shape.instant,
            waiting: shape.count.meta({ description: 'Deliveries in the lane; at most 100 are counted.' }),
          })
          .meta({ id: 'BlockedLane' }),
      )
      .max(20)
      .meta({ description: 'Its blocked lanes, the next attempt first.' }),
    halts: z
      .array(
        z
          .object({
            ...delivery,
            orderingKey: z.string(),
            since: shape.instant,
            waiting: shape.count.meta({ description: 'Deliveries behind it; at most 100 are counted.' }),
          })
          .meta({ id: 'HaltingDeadLetter', description: 'A dead letter that halts its lane.' }),
      )
      .max(20)
      .meta({ description: 'Its dead letters that halt lanes, the longest first.' }),
    topics: z
      .array(z.object({ topic: shape.topic, waiting: shape.count }))
      .max(20)
      .meta({ description: 'Of an outage: the topics whose deliveries wait, the most first.' }),
    deadLetters: z
      .array(z.object({ ...delivery, deadLetteredAt: shape.instant }).meta({ id: 'OwedDeadLetter' }))
      .max(10)
      .meta({ description: 'Its newest dead letters.' }),
    groups: z
      .array(z.object({ group: shape.errorGroup, message: z.string(), count: shape.count }))
      .max(10)
      .meta({ description: 'The error groups of its dead letters, largest first.' }),
    refusesReplays: z.boolean().meta({
      description:
        'Whether the subscriber refuses replays of the topic: its dead letters are settled otherwise, then dismissed.',
    }),
    dismissed: shape.count.meta({
      description: 'Its dead letters that operators dismissed and that are still on record.',
    }),
    replays: z.array(incidentReplay).max(3).meta({ description: 'Newest first.' }),
    others: z
      .array(z.object({ incidentId, state: incidentState, sentence: z.string() }))
      .max(10)
      .meta({
        description: 'Other open incidents of the same subscription: it may fail in another way now.',
      }),
    actions: z
      .array(
        z.object({
          at: shape.instant,
          operator: z.string(),
          action: z.string(),
          deliveryId: z.string().nullable(),
          reason: z.string().nullable(),
        }),
      )
      .max(20)
      .meta({ description: 'What operators did on it, newest first.' }),
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
 * @param attached tells whose handlers refuse replays.
 * @returns null for an unknown one.
 */
export async function readIncident(
  db: Database,
  id: string,
  attached: readonly AttachedSubscriber[] = [],
): Promise<IncidentView | null> {
  await watchIncidents(db);
  const [row] = await run<{ found: Found }>(driverOf(db), { text: DETAIL, values: [id] });
  if (!row) return null;
  const { found } = row;
  const { topic, subscriber } = found.incident;
  return {
    ...incidentOf(found.incident),
    generatedAt: instantOf(found.now),
    lanes: found.lanes.map((lane) => ({
      ...deliveryOf(topic, lane),
      orderingKey: lane.ordering_key,
      attempts: lane.attempts,
      nextAttemptAt: instantOf(lane.next_look_at),
      waiting: lane.waiting,
    })),
    halts: found.halts.map((halt) => ({
      ...deliveryOf(topic, halt),
      orderingKey: halt.ordering_key,
      since: instantOf(halt.halted_at),
      waiting: halt.waiting,
    })),
    topics: [...found.topics],
    deadLetters: found.dead_letters.map((letter) => ({
      ...deliveryOf(topic, letter),
      deadLetteredAt: instantOf(letter.dead_lettered_at),
    })),
    groups: [...found.groups],
    refusesReplays: refusingReplays(attached).includes(`${topic} ${subscriber}`),
    dismissed: found.dismissed,
    replays: found.replays.map((replay) => replayOf(topic, replay)),
    others: found.others.map((other) => {
      const { incidentId: otherId, state, sentence } = incidentOf(other);
      return { incidentId: otherId, state, sentence };
    }),
    actions: found.actions.map(({ at, delivery_id: deliveryId, ...action }) => ({
      ...action,
      at: instantOf(at),
      deliveryId,
    })),
  };
}

function deliveryOf(topic: string, { id, event_id: eventId, payload, version, last }: FoundDelivery) {
  // A long payload was not read, so its personal data is unknown.
  const texts = payload === null ? null : personalTexts(topic, payload, version);
  const masked = (text: string) => (texts === null ? '' : maskPersonalData(text, texts));
  return {
    deliveryId: id,
    eventId,
    subject: payload === null ? null : subjectOf(topic, payload, version),
    lastError:
      last?.kind === undefined || texts === null
        ? null
        : { kind: masked(last.kind), message: masked(last.message ?? '') },
  };
}

function replayOf(topic: string, found: FoundReplay): IncidentReplay {
  const {
    id,
    requested_by: requestedBy,
    replayed,
    left,
    delivered,
    pending,
    failing,
    dead_lettered: deadLettered,
  } = found;
  return {
    replayId: id,
    requestedAt: instantOf(found.requested_at),
    requestedBy,
    replayed,
    left,
    delivered,
    pending,
    failing,
    deadLettered,
    confirmedAt:
      replayed > 0 && left === 0 && delivered >= replayed ? instantOrNull(found.last_delivered_at) : null,
    failedAgain: found.failed_again.map((letter) => ({ ...deliveryOf(topic, letter), state: letter.state })),
  };
}
