import * as z from 'zod';

import { subscriberNames, subscribersOf } from '../../bus/catalog/catalog.ts';
import { LANES_COUNTED } from '../../components/incidents/halts.ts';
import { NEXT_INCIDENT } from '../../components/incidents/next.ts';
import { computed, field, instant, instantOrNull, jsonOf, shapesOf } from '../kit/fields.ts';
import type { Row } from '../kit/fields.ts';
import * as shape from '../kit/shapes.ts';
import { outage, outageFields } from './outage.ts';
import { sentenceOf } from './sentence.ts';

export const incidentId = z
  .uuid('expected the id of an incident')
  .meta({ description: 'The id of an incident.' });

export const incidentState = z.enum(['happening', 'owed', 'closed']).meta({
  id: 'IncidentState',
  description:
    '`happening`: lanes are blocked now, chat fails, or a day’s budget comes to its end. `owed`: no lane is, and dead letters are left or are being delivered again, or rows are set aside. `closed`: nothing is left of it.',
});

const acknowledgedFields = {
  at: instant('acknowledged_at'),
  by: field(z.string(), 'acknowledged_by'),
  note: field(z.string(), "coalesce(acknowledged_note, '')"),
};

/** Of a row of `incidents`. */
const incidentFields = {
  incidentId: field(incidentId, 'incidents.id'),
  topic: field(
    shape.topic.nullable().meta({
      description:
        'Null for an outage, which is all topics of the subscriber, for a clock that was ahead, and where chat fails or a day’s budget comes to its end.',
    }),
    "nullif(incidents.topic, '')",
  ),
  subscriber: field(
    z
      .string()
      .meta({ description: 'Empty for the bus itself: see what it set aside; and for chat and budgets.' }),
    'incidents.subscriber',
  ),
  state: field(incidentState, 'state'),
  sentence: computed(z.string().meta({ description: 'What is wrong, in words.' })),
  group: field(
    shape.errorGroup.nullable().meta({
      description:
        'The error group, which its dead letters have too. Null for an outage, payloads that nobody reads, the bus itself, chat and budgets.',
    }),
    "nullif(incidents.error_group, '')",
  ),
  lastError: field(shape.lastError, "json_build_object('kind', kind, 'message', message)"),
  openedAt: instant('opened_at', 'The first failure.'),
  changedAt: instant('changed_at', 'When its state last changed.'),
  closedAt: instantOrNull('closed_at'),
  times: field(z.int().positive().meta({ description: 'How often it has happened since then.' }), 'times'),
  lastOpenedAt: instantOrNull(
    'last_opened_at',
    'When it began for the last of these times; null for the first.',
  ),
  next: field(
    z
      .object({
        incidentId,
        topic: shape.topic.nullable().meta({ description: 'Null for an outage.' }),
        ...shape.lastError.shape,
      })
      .nullable()
      .meta({
        description:
          'Of one that has no blocked lanes any more: the worst that happens now instead, because the subscriber fails with another error or does not answer. Null where its lanes deliver.',
      }),
    NEXT_INCIDENT,
  ),
  blockedLanes: field(
    shape.count.meta({ description: `Counted up to ${LANES_COUNTED} of a subscription.` }),
    'blocked_lanes',
  ),
  haltedLanes: field(
    shape.count.meta({
      description: 'The part of them that waits until a dead letter is replayed or dismissed.',
    }),
    'halted_lanes',
  ),
  waiting: field(
    shape.count.meta({
      description: 'Deliveries in these lanes; of a lane of a key up to 100 are counted.',
    }),
    'waiting',
  ),
  owed: field(
    shape.count.meta({
      description: 'Its dead letters; of the bus itself, the rows that it set aside.',
    }),
    'owed',
  ),
  revision: field(z.int().positive().meta({ description: 'Counts the changes of its state.' }), 'revision'),
  acknowledged: field(
    z
      .object(shapesOf(acknowledgedFields))
      .nullable()
      .meta({ description: 'The operator who has taken it up.' }),
    `case when acknowledged_at is not null then ${jsonOf(acknowledgedFields)} end`,
  ),
  paused: field(
    z.boolean().meta({ description: 'Whether an operator has paused the subscriber.' }),
    `exists (
        select from pauses where pauses.subscriber = incidents.subscriber and pauses.topic in ('', incidents.topic)
      )`,
  ),
  outage: field(
    outage.nullable().meta({ description: 'While the subscriber does not answer.' }),
    `(
        select ${jsonOf(outageFields)} from outages
        where incidents.topic = '' and outages.subscriber = incidents.subscriber
      )`,
  ),
  inCatalog: computed(
    z.boolean().meta({ description: 'Whether this release’s catalog lists the subscription.' }),
  ),
  lastDeliveredAt: instantOrNull(
    `(
        select max(last_delivered_at) from lane_outcomes
        where lane_outcomes.subscriber = incidents.subscriber and incidents.topic in ('', lane_outcomes.topic)
      )`,
    'When the subscription last delivered.',
  ),
};

export const incident = z.object(shapesOf(incidentFields)).meta({
  id: 'Incident',
  description:
    'All that goes wrong in one subscription by one error, from its first failure until nothing is left; or an outage of a subscriber, until it answers.',
});

export type Incident = z.output<typeof incident>;

export type FoundIncident = Row<typeof incidentFields>;

/** A row of `incidents` as JSON. */
export const INCIDENT = jsonOf(incidentFields);

/** What happens now comes first, the most blocked before the longest; then what is over. */
export const WORST_FIRST = `state, waiting desc, owed desc, opened_at, id`;

export function incidentOf(found: FoundIncident): Incident {
  const { topic, subscriber } = found;
  return { ...found, sentence: sentenceOf(found), inCatalog: isListed(topic, subscriber) };
}

/** @param topic null: any. @param subscriber empty: the bus itself. */
function isListed(topic: string | null, subscriber: string): boolean {
  if (subscriber === '') return true;
  return (topic === null ? subscriberNames() : subscribersOf(topic)).includes(subscriber);
}
