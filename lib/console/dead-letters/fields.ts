import * as z from 'zod';

import { SKIPPED } from '../../bus/deliveries/operations/skip.ts';
import { deliveryFields } from '../deliveries/fields.ts';
import { computed, field, instant, instantOrNull, shapesOf } from '../kit/fields.ts';
import type { Row } from '../kit/fields.ts';
import * as shape from '../kit/shapes.ts';

export const itemFields = {
  ...deliveryFields,
  deadLetteredAt: instant('dead_lettered_at'),
  isHalting: field(
    z.boolean().meta({
      description: 'Whether its lane, or its ordering key, waits until it is replayed or dismissed.',
    }),
    'is_open',
  ),
  lastError: computed(shape.lastError.extend({ group: shape.errorGroup })),
};
const item = z.object(shapesOf(itemFields)).meta({ id: 'DeadLetterItem' });
export type DeadLetterItem = z.output<typeof item>;

/** Read beside an item: its place in the list, and what its error is masked with. */
export const BESIDE_ITEM = {
  place: `json_build_array(to_char(dead_lettered_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    page.lane::text, page.position::text)`,
  last: "(attempt_log -> -1) - 'answer'",
  ofGroup: "json_build_object('kind', kind, 'message', message, 'group', error_group)",
  // Null if it is longer than a list reads.
  payload: 'case when bytes <= 16384 then payload end',
  version: 'events.version',
};

export interface FoundItem extends Row<typeof itemFields> {
  readonly place: readonly [at: string, lane: string, position: string];
  readonly last: { readonly kind?: string; readonly message?: string };
  readonly ofGroup: DeadLetterItem['lastError'];
  readonly payload: unknown;
  readonly version: number;
}

export const groupFields = {
  group: field(shape.errorGroup, 'key'),
  kind: field(z.string(), 'kind'),
  message: field(z.string(), 'message'),
  topic: field(shape.topic, 'topic'),
  subscriber: field(z.string(), 'subscriber'),
  count: field(shape.count, 'count'),
  firstAt: instant('first_at'),
  lastAt: instant('last_at'),
  isStillFailing: field(
    z.boolean().meta({ description: 'Whether the subscription delivered nothing since its last failure.' }),
    `coalesce(is_still_failing, false) and (kind, message) <> ('${SKIPPED.kind}', '${SKIPPED.message}')`,
  ),
};
export const groupOfErrors = z
  .object(shapesOf(groupFields))
  .meta({ id: 'ErrorGroup', description: 'Dead letters of one subscription that failed in the same way.' });
export type ErrorGroup = z.output<typeof groupOfErrors>;

export const retryFields = {
  failing: field(
    shape.count.meta({ description: 'If the list is empty: deliveries that wait for a retry.' }),
    'coalesce(sum(failing), 0)',
  ),
  // In an outage, lanes wait for the next probe, whatever they are due.
  nextRetryAt: instantOrNull(
    'min(case when outages.subscriber is null then due_at when failing > 0 then next_probe_at end)',
  ),
};

const cursor = (description: string) => z.string().nullable().meta({ description });

export const deadLetterPage = z
  .object({
    generatedAt: shape.instant,
    filters: z.object({
      topic: shape.topic.nullable(),
      subscriber: z.string().nullable(),
      since: z.string().nullable(),
      until: z.string().nullable(),
      group: z.string().nullable(),
      q: z.string().nullable(),
      limit: shape.count,
    }),
    items: z.array(item).meta({ description: 'Newest first.' }),
    total: shape.count.meta({ description: 'Exact number of matches.' }),
    totalInAll: shape.count,
    groups: z.array(groupOfErrors).meta({ description: 'Largest first.' }),
    nextCursor: cursor('The cursor of older dead letters; null on the last page.'),
    previousCursor: cursor('The cursor of newer dead letters; null on the first page.'),
    ...shapesOf(retryFields),
  })
  .meta({
    id: 'DeadLetterPage',
    description: 'A page of dead letters, and the groups of their errors.',
  });
export type DeadLetterPage = z.output<typeof deadLetterPage>;
export type DeadLetterFilters = DeadLetterPage['filters'];
