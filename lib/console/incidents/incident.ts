import * as z from 'zod';

import { catalog, isTopicName, subscriberNames } from '../../bus/catalog/catalog.ts';
import { LANES_COUNTED } from '../../bus/deliveries/halts.ts';
import { instantOf, instantOrNull } from '../../platform/time.ts';
import * as shape from '../kit/shapes.ts';
import { OUTAGE, outage, outageOf } from './outage.ts';
import type { FoundOutage } from './outage.ts';
import { sentenceOf } from './sentence.ts';

export const incidentId = z.uuid().meta({ description: 'The id of an incident.' });

export const incidentState = z.enum(['happening', 'owed', 'closed']).meta({
  id: 'IncidentState',
  description:
    '`happening`: lanes are blocked now. `owed`: no lane is, and dead letters are left or are being delivered again, or rows are set aside. `closed`: nothing is left of it.',
});

export const incident = z
  .object({
    incidentId,
    topic: shape.topic.nullable().meta({
      description:
        'Null for an outage, which is all topics of the subscriber, and for a clock that was ahead.',
    }),
    subscriber: z.string().meta({ description: 'Empty for the bus itself: see what it set aside.' }),
    state: incidentState,
    sentence: z.string().meta({ description: 'What is wrong, in words.' }),
    lastError: shape.lastError,
    openedAt: shape.instant.meta({ description: 'The first failure.' }),
    changedAt: shape.instant.meta({ description: 'When its state last changed.' }),
    closedAt: shape.instant.nullable(),
    blockedLanes: shape.count.meta({ description: `Counted up to ${LANES_COUNTED} of a subscription.` }),
    haltedLanes: shape.count.meta({
      description: 'The part of them that waits until a dead letter is replayed or dismissed.',
    }),
    waiting: shape.count.meta({
      description: 'Deliveries in these lanes; of a lane of a key up to 100 are counted.',
    }),
    owed: shape.count.meta({
      description: 'Its dead letters; of the bus itself, the rows that it set aside.',
    }),
    revision: z.int().positive().meta({ description: 'Counts the changes of its state.' }),
    acknowledged: z
      .object({ at: shape.instant, by: z.string(), note: z.string() })
      .nullable()
      .meta({ description: 'The operator who has taken it up.' }),
    paused: z.boolean().meta({ description: 'Whether an operator has paused the subscriber.' }),
    outage: outage.nullable().meta({ description: 'While the subscriber does not answer.' }),
    inCatalog: z.boolean().meta({ description: 'Whether this release’s catalog lists the subscription.' }),
    lastDeliveredAt: shape.instant.nullable().meta({ description: 'When the subscription last delivered.' }),
  })
  .meta({
    id: 'Incident',
    description:
      'All that goes wrong in one subscription in one way, from its first failure until nothing is left; or an outage of a subscriber, until it answers.',
  });

export type Incident = z.output<typeof incident>;

/** A row of `INCIDENT`. Times are epoch milliseconds. */
export interface FoundIncident {
  readonly id: string;
  /** Empty for an outage. */
  readonly topic: string;
  readonly subscriber: string;
  readonly kind: string;
  readonly message: string;
  readonly state: Incident['state'];
  readonly revision: number;
  readonly opened_at: number;
  readonly changed_at: number;
  readonly closed_at: number | null;
  readonly blocked_lanes: number;
  readonly halted_lanes: number;
  readonly waiting: number;
  readonly owed: number;
  readonly acknowledged_at: number | null;
  readonly acknowledged_by: string | null;
  readonly acknowledged_note: string | null;
  readonly is_paused: boolean;
  readonly outage: FoundOutage | null;
  readonly last_delivered_at: number | null;
}

/** A row of `incidents` as JSON. */
export const INCIDENT = `json_build_object('id', incidents.id, 'topic', incidents.topic,
      'subscriber', incidents.subscriber, 'kind', kind, 'message', message, 'state', state, 'revision', revision,
      'opened_at', extract(epoch from opened_at) * 1000, 'changed_at', extract(epoch from changed_at) * 1000,
      'closed_at', extract(epoch from closed_at) * 1000, 'blocked_lanes', blocked_lanes, 'halted_lanes', halted_lanes, 'waiting', waiting,
      'owed', owed, 'acknowledged_at', extract(epoch from acknowledged_at) * 1000,
      'acknowledged_by', acknowledged_by, 'acknowledged_note', acknowledged_note,
      'outage', (
        select json_build_object(${OUTAGE}) from outages
        where incidents.topic = '' and outages.subscriber = incidents.subscriber and recovered_at is null
      ),
      'is_paused', exists (
        select from pauses where pauses.subscriber = incidents.subscriber and pauses.topic in ('', incidents.topic)
      ),
      'last_delivered_at', (
        select extract(epoch from max(last_delivered_at)) * 1000 from backlog
        where incidents.topic in ('', backlog.topic) and backlog.subscriber = incidents.subscriber
      ))`;

/** What happens now comes first, the most blocked before the longest; then what is over. */
export const WORST_FIRST = `state, waiting desc, owed desc, opened_at, id`;

export function incidentOf(found: FoundIncident): Incident {
  const { subscriber, kind, message, state, waiting, owed, revision } = found;
  const { acknowledged_at: at, acknowledged_by: by, acknowledged_note: note } = found;
  const topic = found.topic || null;
  const facts = {
    topic,
    subscriber,
    state,
    lastError: { kind, message },
    blockedLanes: found.blocked_lanes,
    haltedLanes: found.halted_lanes,
    waiting,
    owed,
  };
  return {
    incidentId: found.id,
    ...facts,
    sentence: sentenceOf(facts),
    openedAt: instantOf(found.opened_at),
    changedAt: instantOf(found.changed_at),
    closedAt: instantOrNull(found.closed_at),
    revision,
    acknowledged: at === null || by === null ? null : { at: instantOf(at), by, note: note ?? '' },
    paused: found.is_paused,
    outage: found.outage && outageOf(found.outage),
    inCatalog: isListed(topic, subscriber),
    lastDeliveredAt: instantOrNull(found.last_delivered_at),
  };
}

/** @param topic null: any. @param subscriber empty: the bus itself. */
function isListed(topic: string | null, subscriber: string): boolean {
  if (subscriber === '') return true;
  if (topic === null) return subscriberNames().some((listed) => listed === subscriber);
  return isTopicName(topic) && catalog[topic].subscribers.some((listed) => listed === subscriber);
}
