import * as z from 'zod';

import { deliveryFields, isHalting } from '../deliveries/attempts.ts';
import { computed, cursorOf, exactInstantSql, field, instant, shapesOf } from '../kit/fields.ts';
import type { Row } from '../kit/fields.ts';
import { byLink, bySince, bySubscriber, byText, byTopic, shapesIn } from '../kit/filters.ts';
import { LISTED_PAYLOAD_BYTES } from '../kit/listed-delivery.ts';
import type { BesideListed } from '../kit/listed-delivery.ts';
import { isInstant, LONGEST_GROUPS } from '../kit/replay-request.ts';
import * as shape from '../kit/shapes.ts';

export const itemFields = {
  ...deliveryFields,
  deadLetteredAt: instant('dead_lettered_at'),
  isHalting: field(isHalting, 'is_open'),
  lastError: computed(shape.lastError.extend({ group: shape.errorGroup })),
};
const item = z.object(shapesOf(itemFields)).meta({ id: 'DeadLetterItem' });
export type DeadLetterItem = z.output<typeof item>;

export const csvColumns = Object.keys(itemFields).flatMap((name) =>
  name === 'lastError' ? ['lastError.kind', 'lastError.message', 'lastError.group'] : [name],
);

/** Read beside an item: its place in the list, and what its error is masked with. */
export const BESIDE_ITEM = {
  place: `json_build_array(${exactInstantSql('dead_lettered_at')},
    page.lane::text, page.position::text)`,
  last: "(attempt_log -> -1) - 'answer'",
  ofGroup: "json_build_object('kind', kind, 'message', message, 'group', error_group)",
  // Null if it is longer than a list reads.
  payload: `case when bytes <= ${LISTED_PAYLOAD_BYTES} then payload end`,
  version: 'events.version',
};

export interface FoundItem extends Row<typeof itemFields>, BesideListed {
  readonly place: readonly [at: string, lane: string, position: string];
  readonly ofGroup: DeadLetterItem['lastError'];
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
};
export const groupOfErrors = z
  .object(shapesOf(groupFields))
  .meta({ id: 'ErrorGroup', description: 'Dead letters of one subscription that failed in the same way.' });
export type ErrorGroup = z.output<typeof groupOfErrors>;

/** The start of a page: after the delivery that was dead-lettered at this instant, to the microsecond. */
const cursorShape = z.tuple([
  z.string().refine(isInstant),
  z.string().regex(/^\d{1,18}$/),
  z.string().regex(/^\d{1,18}$/),
]);

export const deadLetterFilters = {
  topic: byTopic,
  subscriber: bySubscriber,
  since: bySince('Dead-lettered'),
  group: byLink(z.string().max(LONGEST_GROUPS).optional(), {
    value: '<group>',
    help: 'only one group of equal errors, by its id in --json',
  }),
  q: {
    ...byText(
      'Error',
      { name: 'search', value: '<text>', help: 'only errors that contain this text' },
      '503 or period closed',
    ),
    shape: z.string().trim().max(200).optional(),
  },
};

/** The query of the list of dead letters. */
export const deadLetterQuery = z.object({
  ...shapesIn(deadLetterFilters),
  limit: shape.pageLimit,
  cursor: cursorOf(cursorShape).optional(),
});

export type DeadLetterQuery = z.output<typeof deadLetterQuery>;

export const deadLetterPage = z
  .object({
    generatedAt: shape.instant,
    filters: z.object(shapesIn(deadLetterFilters)),
    items: z.array(item).describe('Newest first.'),
    total: shape.count.describe('Exact number of matches.'),
    totalInAll: shape.count,
    groups: z.array(groupOfErrors).describe('Largest first.'),
    nextCursor: z.string().nullable().describe('The cursor of older dead letters.'),
  })
  .meta({
    id: 'DeadLetterPage',
    description: 'A page of dead letters, and the groups of their errors.',
  });
export type DeadLetterPage = z.output<typeof deadLetterPage>;
