import * as z from 'zod';

import { field } from './fields.ts';
import * as shape from './shapes.ts';
import { quantity } from './words.ts';

// A skip of all that hold the lanes of an incident is one act, and one line of each list. Every delivery has a record of
// its own, because each is skipped in a transaction of its own; they share the act's instant.

const OF_THE_ACT = `from operator_actions as other
    where other.at = operator_actions.at and other.action = 'skip' and other.operator = operator_actions.operator
      and other.incident_id = operator_actions.incident_id`;

/** Whether a row of `operator_actions` stands for its act. The limit keeps the planner from joining the whole log. */
export const STANDS_FOR_ACT = `(action <> 'skip' or incident_id is null or operator_actions.id = (
    select other.id ${OF_THE_ACT} order by other.id limit 1
  ))`;

/** How many deliveries the act of a row skipped; null for one, and for another action. */
export const SKIPPED_TOGETHER = `case when action = 'skip' and incident_id is not null then (
    select nullif(count(*), 1)::int ${OF_THE_ACT}
  ) end`;

/** Of rows that have `SKIPPED_TOGETHER` as `deliveries`. */
export const actFields = {
  deliveryId: field(z.string().nullable(), 'case when deliveries is null then delivery_id end'),
  deliveries: field(
    shape.count.nullable().meta({
      description:
        'Of a skip of several deliveries of an incident: how many. `deliveryId` is then null. Null for another action.',
    }),
    'deliveries',
  ),
};

/** `skip`, or `skipped 130 deliveries`. */
export function actWords(action: string, deliveries: number | null): string {
  return deliveries === null ? action.replaceAll('_', ' ') : `skipped ${quantity(deliveries, 'delivery')}`;
}
