import { v7 as uuidv7 } from 'uuid';
import { z } from 'zod';

import { isTopicName } from '../catalog/catalog.ts';
import type { Database } from '../db/connect.ts';
import { driverOf, run } from '../db/statement.ts';
import { DAY, HOUR, MINUTE, SECOND } from '../time.ts';

const UNIT_MS = new Map([
  ['s', SECOND],
  ['m', MINUTE],
  ['h', HOUR],
  ['d', DAY],
  ['w', 7 * DAY],
]);

/** The bus is younger than this, so no window needs to be wider. */
const WIDEST_MS = 3650 * DAY;

/** `24h`, `90m`, `7d`: how far back from now. */
const ago = z.string().refine((text) => {
  const ms = msOf(text);
  return ms > 0 && ms <= WIDEST_MS;
}, 'write a whole number above 0 and a unit, s, m, h, d or w, for example 24h; ten years at most');

function msOf(text: string): number {
  const [, count = '', unit = ''] = /^(\d{1,9})([smhdw])$/.exec(text) ?? [];
  return Number(count) * (UNIT_MS.get(unit) ?? 0);
}

const deliveryId = z
  .string()
  .regex(/^\d{1,18}-\d{1,18}$/, 'write a delivery id as the dead letters show it, for example 12-345');

/** What an operator may ask for. */
export const replayRequest = z.strictObject({
  topic: z.string().refine(isTopicName, 'write a topic of the catalog'),
  /** From how long ago, by the time of death (with `include: "all"`, of death or delivery). */
  since: ago,
  /** Up to how long ago; up to now without it. */
  until: ago.optional(),
  subscriber: z.string().min(1).max(100).optional(),
  deliveryIds: z.array(deliveryId).min(1).max(1000).optional(),
  /** `all` also plays again what was delivered. */
  include: z.enum(['dead_letters', 'all'], 'write dead_letters or all').default('dead_letters'),
  /** Counts and changes nothing. */
  dryRun: z.boolean().default(false),
  /** Refuse when another number matches by now. */
  expectedCount: z.int().nonnegative().optional(),
  /** The oldest so many. */
  limit: z.int().positive().max(100_000).optional(),
  reason: z.string().max(500).optional(),
});

export type ReplayRequest = z.input<typeof replayRequest>;

export interface Replay {
  /** Null for a dry run. */
  readonly replayId: string | null;
  readonly topic: string;
  readonly since: string;
  readonly matched: number;
  readonly replayed: number;
}

/** By now another number of deliveries matches than the operator was shown; nothing was replayed. */
export class CountChanged extends Error {
  readonly code = 'count_changed';
  readonly expected: number;
  readonly matched: number;

  constructor(expected: number, matched: number) {
    super(`${matched} deliveries match, not ${expected}: look again before you replay`);
    this.name = 'CountChanged';
    this.expected = expected;
    this.matched = matched;
  }
}

/**
 * Puts dead letters (or everything) of a topic back to pending, with fresh attempts, in one statement that also
 * records who did it.
 *
 * Each keeps its event, its place in the lane and its history, and comes before all of its lane that is newer. What
 * another operator has put back in the meantime is left alone, so that a double click replays once.
 *
 * @param request as the operator wrote it.
 * @param by who: the token's subject.
 * @param now overrides the database's clock in tests.
 * @throws ZodError for a request that is not one; CountChanged.
 */
export async function replay(db: Database, request: ReplayRequest, by: string, now?: Date): Promise<Replay> {
  const asked = replayRequest.parse(request);
  const { topic, since, until, subscriber, deliveryIds, include, dryRun, expectedCount, limit, reason } =
    asked;
  const id = uuidv7();
  const [row] = await run<{ matched: number; replayed: number }>(driverOf(db), {
    text: REPLAY,
    values: [
      topic,
      msOf(since),
      until === undefined ? 0 : msOf(until),
      subscriber ?? null,
      deliveryIds ? JSON.stringify(deliveryIds) : null,
      include === 'all',
      dryRun,
      expectedCount ?? null,
      limit ?? null,
      now?.toISOString() ?? null,
      id,
      by,
      reason ?? null,
      JSON.stringify(request),
    ],
  });
  const { matched, replayed } = row!;
  if (expectedCount !== undefined && matched !== expectedCount)
    throw new CountChanged(expectedCount, matched);
  return { replayId: dryRun ? null : id, topic, since, matched, replayed };
}

// Lanes are locked first and sorted, events after them and sorted, as settling does. The lane's head moves back to
// before the first that is put back; a relay that holds the lane sees that when it settles.
const REPLAY = `
  with clock as materialized (
    select coalesce($10::text::timestamptz, clock_timestamp()) as now
  ),
  matching as materialized (
    select lane_id, position
    from clock, lanes join deliveries on deliveries.lane_id = lanes.id
    where lanes.topic = $1::text and ($4::text is null or lanes.subscriber = $4::text)
      and ($5::text is null or lane_id || '-' || position in (select jsonb_array_elements_text($5::text::jsonb)))
      and (state = 'dead_lettered' or ($6::boolean and state = 'delivered'))
      and coalesce(dead_lettered_at, delivered_at) >= clock.now - $2::float8 * interval '1 millisecond'
      and coalesce(dead_lettered_at, delivered_at) <= clock.now - $3::float8 * interval '1 millisecond'
    order by position, lane_id
    limit $9::int
  ),
  chosen as materialized (
    select * from matching
    where not $7::boolean and ($8::int is null or $8::int = (select count(*) from matching))
  ),
  locked_lane as materialized (
    select id from lanes where id in (select lane_id from chosen)
    order by topic, subscriber, ordering_key for update
  ),
  put_back as (
    update deliveries set state = 'pending', attempts = 0, next_attempt_at = null, dead_lettered_at = null,
      delivered_at = null, replayed_at = clock.now, replays = deliveries.replays + 1,
      attempt_log = coalesce(attempt_log, '[]')
        || case when deliveries.state = 'delivered' then jsonb_build_array(jsonb_build_object('attempt', attempts,
          'at', attempted_at, 'durationMs', duration_ms, 'outcome', 'delivered')) else '[]' end
        || jsonb_build_array(jsonb_build_object('attempt', 0, 'at', clock.now, 'durationMs', 0, 'outcome', 'replayed',
          'replayId', $11::text, 'by', $12::text, 'from', deliveries.state))
    from clock, chosen join locked_lane on locked_lane.id = chosen.lane_id
    where deliveries.lane_id = chosen.lane_id and deliveries.position = chosen.position
      and (deliveries.state = 'dead_lettered' or ($6::boolean and deliveries.state = 'delivered'))
    returning deliveries.lane_id, deliveries.position, event_id,
      (attempt_log -> -1 ->> 'from' = 'dead_lettered')::int as was_dead
  ),
  moved_lane as (
    update lanes set head = least(head, first.position - 1),
      due_at = case when lease_token is null then clock.now else due_at end
    from clock, (select lane_id, min(position) as position from put_back group by lane_id) as first
    where lanes.id = first.lane_id
  ),
  change as materialized (
    select event_id, count(*) as open, sum(was_dead) as was_dead from put_back group by event_id
  ),
  locked_event as materialized (
    select events.id, change.open, change.was_dead
    from events join change on events.id = change.event_id order by events.id for update of events
  ),
  changed_event as (
    update events set open = events.open + locked_event.open,
      dead_lettered = events.dead_lettered - locked_event.was_dead
    from locked_event where events.id = locked_event.id
  ),
  recorded as (
    insert into replays (id, topic, requested_at, requested_by, reason, request, matched, replayed)
    select $11::uuid, $1::text, clock.now, $12::text, $13::text, $14::text::jsonb, (select count(*) from matching),
      (select count(*) from put_back)
    from clock where not $7::boolean and ($8::int is null or $8::int = (select count(*) from matching))
  )
  select (select count(*)::int from matching) as matched, (select count(*)::int from put_back) as replayed`;
