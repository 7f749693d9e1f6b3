import * as z from 'zod';

import { topicsOf } from '../../bus/subscribers/subscriber.ts';
import { backlogAgeOf } from '../../components/subscriber-health/backlog-ages.ts';
import type { Database } from '../../platform/db/database.ts';
import { SECOND } from '../../platform/time.ts';
import { LISTED_LANES, heldLane, readHeldLanes } from '../held-lanes/held-lanes.ts';
import { incident } from '../incidents/incident.ts';
import { readIncidents } from '../incidents/read.ts';
import { subscriptionFields, subscriptionsIn } from '../kit/subscription.ts';
import type { Attachments } from '../kit/subscription.ts';
import * as shape from '../kit/shapes.ts';
import { readStandings, subscriberStanding } from './standing.ts';

/** More are on the page of incidents. */
const INCIDENTS = 20;

export const shownSubscriber = z
  .object({
    generatedAt: shape.instant,
    items: z.tuple([subscriberStanding]).describe('The subscriber as it is now.'),
    waitsForSeconds: shape.count
      .nullable()
      .describe(
        'How long the delivery that waits longest has waited, also for a retry or the end of a pause. Null if none waits.',
      ),
    subscriber: z.string(),
    subscriptions: z
      .array(
        z.object({
          topic: shape.topic,
          inCatalog: z.boolean(),
          waiting: shape.count,
          deadLettered: shape.count,
          ...subscriptionFields,
        }),
      )
      .describe('The topics that the catalog lists it for, and others that something is left in.'),
    incidents: z
      .array(incident)
      .max(INCIDENTS)
      .describe('What goes wrong with it now, and what is over with dead letters left.'),
    heldLanes: z
      .array(heldLane)
      .max(LISTED_LANES)
      .describe('Its lanes whose first delivery waits for a retry, by their next attempt.'),
  })
  .meta({ id: 'ShownSubscriber', description: 'A subscriber as it is now, and what goes wrong with it.' });

export type ShownSubscriber = z.output<typeof shownSubscriber>;
export type ShownSubscription = ShownSubscriber['subscriptions'][number];

/**
 * Reads how a subscriber is, and what goes wrong with it. The cost does not grow with the number of deliveries.
 *
 * @returns null for a subscriber that neither the catalog nor any delivery names.
 */
export async function readSubscriber(
  db: Database,
  subscriber: string,
  attachments: Attachments,
): Promise<ShownSubscriber | null> {
  const listed = topicsOf(subscriber);
  const incidentsOf = readIncidents(db, { subscriber, limit: INCIDENTS });
  const [{ items: incidents }, standings, heldLanes, waitsForMs] = await Promise.all([
    incidentsOf,
    readStandings(db, attachments.subscribers(), subscriber, incidentsOf),
    readHeldLanes(db, { subscriber }, attachments.subscribers()),
    backlogAgeOf(db, subscriber),
  ]);
  const [standing] = standings.items;
  if (!standing) return null;
  const left = new Map(
    standings.subscriptions.filter((one) => one.subscriber === subscriber).map((one) => [one.topic, one]),
  );
  const topics = [...new Set([...listed, ...left.keys()])].toSorted();
  const subscriptionOf = subscriptionsIn(attachments);
  return {
    generatedAt: standings.generatedAt,
    items: [standing],
    waitsForSeconds: waitsForMs === null ? null : Math.floor(waitsForMs / SECOND),
    subscriber,
    subscriptions: topics
      .map((name) => {
        const { pending = 0, failing = 0, deadLettered = 0 } = left.get(name) ?? {};
        const inCatalog = listed.includes(name);
        const waiting = pending + failing;
        return { topic: name, inCatalog, waiting, deadLettered, ...subscriptionOf(name, subscriber) };
      })
      .filter((one) => one.inCatalog || one.waiting + one.deadLettered > 0),
    incidents: incidents.filter(({ state }) => state !== 'closed'),
    heldLanes,
  };
}
