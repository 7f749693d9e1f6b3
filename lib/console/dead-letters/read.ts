import * as z from 'zod';

import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { maskPersonalData, personalTexts } from '../../platform/masking/personal.ts';
import { subjectOf } from '../../platform/masking/subject.ts';
import { instantOf, instantOrNull } from '../../platform/time.ts';
import * as shape from '../kit/shapes.ts';
import { findDeadLetters, isPaged } from './found.ts';
import type { FoundGroup, FoundItem } from './found.ts';
import { writeCursor } from './query.ts';
import type { DeadLetterQuery } from './query.ts';

const deliveryId = z.string().meta({ description: 'The id of a delivery: `<lane>-<position>`.' });

/** Fields that a list and the delivery's own page both show. */
export const deliveryFields = {
  deliveryId,
  eventId: z.uuid(),
  topic: shape.topic,
  subscriber: z.string(),
  subject: z
    .string()
    .nullable()
    .meta({ description: 'The subject of the event, for example `booking bkg_48213`.' }),
  createdAt: shape.instant,
  failures: shape.count.meta({ description: 'Failed attempts since fan-out or the last replay.' }),
  replays: shape.count,
};

const item = z
  .object({
    ...deliveryFields,
    deadLetteredAt: shape.instant,
    isHalting: z.boolean().meta({
      description: 'Whether its lane, or its ordering key, waits until it is replayed or dismissed.',
    }),
    lastError: shape.lastError.extend({ group: shape.errorGroup }),
  })
  .meta({ id: 'DeadLetterItem' });

export const groupOfErrors = z
  .object({
    group: shape.errorGroup,
    kind: z.string(),
    message: z.string(),
    topic: shape.topic,
    subscriber: z.string(),
    count: shape.count,
    firstAt: shape.instant,
    lastAt: shape.instant,
    isStillFailing: z
      .boolean()
      .meta({ description: 'Whether the subscription delivered nothing since its last failure.' }),
  })
  .meta({ id: 'ErrorGroup', description: 'Dead letters of one subscription that failed in the same way.' });

export const deadLetterPage = z
  .object({
    generatedAt: shape.instant,
    filters: z.object({
      topic: shape.topic.nullable(),
      subscriber: z.string().nullable(),
      since: z.string().nullable(),
      group: z.string().nullable(),
      q: z.string().nullable(),
      limit: shape.count,
    }),
    items: z.array(item).meta({ description: 'Newest first.' }),
    total: shape.count.meta({ description: 'Exact number of matches.' }),
    totalInAll: shape.count,
    groups: z.array(groupOfErrors).meta({ description: 'Largest first.' }),
    nextCursor: z
      .string()
      .nullable()
      .meta({ description: 'The cursor of older dead letters; null on the last page.' }),
    previousCursor: z
      .string()
      .nullable()
      .meta({ description: 'The cursor of newer dead letters; null on the first page.' }),
    failing: shape.count.meta({
      description: 'If the list is empty: deliveries that wait for a retry.',
    }),
    nextRetryAt: shape.instant.nullable(),
  })
  .meta({
    id: 'DeadLetterPage',
    description: 'A page of dead letters, and the groups of their errors.',
  });

export type DeadLetterPage = z.output<typeof deadLetterPage>;
export type DeadLetterItem = z.output<typeof item>;
export type ErrorGroup = z.output<typeof groupOfErrors>;
export type DeadLetterFilters = DeadLetterPage['filters'];

/**
 * Lists dead letters page by page, newest first, with the groups of their errors.
 *
 * @param now overrides the database's clock in tests.
 */
export async function readDeadLetters(
  db: Database,
  query: DeadLetterQuery,
  now?: Date,
): Promise<DeadLetterPage> {
  const { topic = null, subscriber = null, since = null, group = null, cursor, limit } = query;
  const found = await findDeadLetters(db, query, now);
  const isOlder = cursor?.towards !== 'newer';
  const hasMore = isPaged(query) && found.items.length > limit;
  const kept = found.items.slice(0, limit);
  const inOrder = isOlder ? kept : kept.toReversed();
  const [first, last] = [inOrder[0], inOrder.at(-1)];
  const hasOlder = isOlder ? hasMore : isPaged(query);
  const hasNewer = isOlder ? isPaged(query) && cursor !== undefined : hasMore;
  return {
    generatedAt: instantOf(found.now),
    filters: { topic, subscriber, since, group, q: query.q || null, limit },
    items: inOrder.map(itemOf),
    total: found.groups.reduce((total, { count }) => total + count, 0),
    totalInAll: found.total_in_all,
    groups: found.groups.map(groupOf),
    nextCursor: last && hasOlder ? writeCursor({ ...last, towards: 'older' }) : null,
    previousCursor: first && hasNewer ? writeCursor({ ...first, towards: 'newer' }) : null,
    ...(kept.length === 0 ? await readRetries(db, now) : { failing: 0, nextRetryAt: null }),
  };
}

function itemOf(found: FoundItem): DeadLetterItem {
  const { topic, payload, version, last } = found;
  // A long payload was not read, so its personal data is unknown. The group's message contains none.
  const masked = (text: string | undefined, ofGroup: string) =>
    payload === null || text === undefined
      ? ofGroup
      : maskPersonalData(text, personalTexts(topic, payload, version));
  return {
    deliveryId: `${found.lane}-${found.position}`,
    eventId: found.event_id,
    topic,
    subscriber: found.subscriber,
    subject: payload === null ? null : subjectOf(topic, payload, version),
    createdAt: instantOf(found.created_at),
    deadLetteredAt: instantOf(found.dead_lettered_at),
    failures: found.attempts,
    replays: found.replays,
    isHalting: found.is_halting,
    lastError: {
      kind: masked(last.kind, found.group_kind),
      message: masked(last.message, found.group_message),
      group: found.error_group,
    },
  };
}

function groupOf(found: FoundGroup): ErrorGroup {
  const { key: group, kind, message, topic, subscriber, count } = found;
  return {
    group,
    kind,
    message,
    topic,
    subscriber,
    count,
    firstAt: instantOf(found.first_at),
    lastAt: instantOf(found.last_at),
    isStillFailing: found.is_still_failing,
  };
}

/** Reads the failing deliveries, for an empty list: they may still become dead letters. */
async function readRetries(
  db: Database,
  now?: Date,
): Promise<Pick<DeadLetterPage, 'failing' | 'nextRetryAt'>> {
  const [row] = await run<{ failing: number; next_retry: number | null }>(driverOf(db), {
    text: RETRIES,
    values: [now?.toISOString() ?? null],
  });
  return { failing: row!.failing, nextRetryAt: instantOrNull(row!.next_retry) };
}

const RETRIES = `
  with clock as materialized (
    select coalesce($1::text::timestamptz, clock_timestamp()) as now
  ),
  subscription as materialized (
    select topic, subscriber, sum(failing) as failing from backlog where subscriber <> '' group by topic, subscriber
  )
  select coalesce(sum(failing), 0)::float8 as failing, (extract(epoch from min(
      -- In an outage, lanes wait for the next probe, whatever they are due.
      case when outages.subscriber is null then due_at when failing > 0 then next_probe_at end
    )) * 1000)::float8 as next_retry
  from clock, subscription left join outages on outages.subscriber = subscription.subscriber and recovered_at is null
  left join lateral (
    select due_at from lanes
    where lanes.topic = subscription.topic and lanes.subscriber = subscription.subscriber
      and due_at > clock.now and due_at < 'infinity' and lease_token is null
    order by due_at limit 1
  ) as lane on true`;
