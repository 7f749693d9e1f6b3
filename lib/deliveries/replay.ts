import { v7 as uuidv7 } from 'uuid';

import { catalog, isTopicName } from '../catalog/catalog.ts';
import { noteDue } from '../db/commits.ts';
import type { Database } from '../db/connect.ts';
import { driverOf, run } from '../db/statement.ts';
import { PRUNE_LOCK } from './locks.ts';
import { MATCHING, matchingValues, wayOf } from './replay-matching.ts';
import type { Way } from './replay-matching.ts';
import { replayRequest } from './replay-request.ts';
import type { ParsedReplayRequest, ReplayRequest } from './replay-request.ts';

export interface Replay {
  /** Null for a dry run. */
  readonly replayId: string | null;
  /** Null for deliveries chosen by id, which may be of several topics. */
  readonly topic: string | null;
  readonly since: string | null;
  readonly matched: number;
  readonly replayed: number;
}

/** The number of matching deliveries has changed since the operator saw it; nothing was replayed. */
export class CountChanged extends Error {
  readonly code = 'count_changed';
  readonly expected: number;
  readonly matched: number;

  constructor(expected: number, matched: number) {
    const match = matched === 1 ? 'delivery matches' : 'deliveries match';
    super(`${matched} ${match}, not ${expected}: check them again before you replay`);
    this.name = 'CountChanged';
    this.expected = expected;
    this.matched = matched;
  }
}

/** This release's catalog does not list the subscription, so no relay of it would deliver; nothing was replayed. */
export class NoSuchSubscription extends Error {
  readonly code = 'no_such_subscription';

  /**
   * @param subscription for example `accounting for payment.captured`.
   * @param consequence a sentence.
   */
  constructor(subscription: string, consequence = 'Nothing was replayed.') {
    super(
      `This release’s catalog does not list ${subscription}: ask a release that does, or list it again. ${consequence}`,
    );
    this.name = 'NoSuchSubscription';
  }
}

/**
 * Returns dead letters of a topic to pending, or all its deliveries, with fresh attempts. The same statement records the
 * operator.
 *
 * Each delivery keeps its event, its position in the lane and its history, and is delivered before everything newer in
 * its lane. A delivery that is pending again already is left alone, so that a double click replays once; with a
 * `replayId` the second request gets the answer of the first.
 *
 * Deliveries to subscribers that the catalog does not list are left out. A request that matches nothing else, or names
 * one of them, is refused.
 *
 * @param request as the operator sent it.
 * @param by the operator: the token's subject.
 * @param now overrides the database's clock in tests.
 * @throws ZodError for an invalid request; NoSuchSubscription; CountChanged.
 */
export async function replay(db: Database, request: ReplayRequest, by: string, now?: Date): Promise<Replay> {
  const asked = replayRequest.parse(request);
  requireListed(asked);
  const { topic = null, since = null, dryRun, expectedCount, reason } = asked;
  const id = asked.replayId ?? uuidv7();
  const [row] = await requeue(db, asked, matchingValues(asked, now), [
    dryRun,
    expectedCount ?? null,
    id,
    by,
    reason ?? null,
    JSON.stringify({ ...request, reason }),
  ]).catch(async (error: unknown) => {
    // The same request was recorded while this one ran: this one is rolled back, and gets the answer of the other.
    const earlier = isDuplicate(error) ? await earlierReplay(db, id) : null;
    if (!earlier) throw error;
    return [{ matched: 0, replayed: 0, earlier, left_out: null }];
  });
  const { matched, replayed } = row!;
  // A dry run counts what matches now, whatever was replayed under the same id.
  const earlier = dryRun ? null : row!.earlier;
  if (earlier) return { replayId: id, topic, since, ...earlier };
  if (row!.left_out !== null && (matched === 0 || asked.deliveryIds) && !dryRun)
    throw new NoSuchSubscription(row!.left_out);
  if (expectedCount !== undefined && matched !== expectedCount)
    throw new CountChanged(expectedCount, matched);
  return { replayId: dryRun ? null : id, topic, since, matched, replayed };
}

/**
 * Takes the locks in a statement of its own, so that the snapshot of the next one is no older than they are. Deliveries
 * that were dead-lettered while it waited for them are not part of the request.
 */
async function requeue(
  db: Database,
  asked: ParsedReplayRequest,
  matching: readonly unknown[],
  replaying: readonly unknown[],
): Promise<ReplayRow[]> {
  const text = REPLAY[wayOf(asked)];
  if (asked.dryRun) return await run(driverOf(db), { text, values: [...matching, ...replaying] });
  return await db.transaction(async (tx) => {
    const { topic = null, subscriber = null, deliveryIds } = asked;
    const [lock] = await run<{ asked_at: string }>(tx, {
      text: LOCK,
      values: [topic, subscriber, deliveryIds ? JSON.stringify(deliveryIds) : null],
    });
    const [overridden, listed] = matching.slice(-2);
    const now = overridden ?? lock?.asked_at ?? null;
    const values = [...matching.slice(0, -2), now, listed, ...replaying];
    const [row] = await run<ReplayRow>(tx, { text, values });
    if (row!.replayed > 0) noteDue(tx);
    return [row!];
  });
}

interface ReplayRow extends Earlier {
  readonly earlier: Earlier | null;
  /** A subscription that was left out because the catalog does not list it, such as `accounting for payment.captured`. */
  readonly left_out: string | null;
}

/** @throws NoSuchSubscription when the catalog does not have the topic, or the topic not the subscriber. */
function requireListed({ topic, subscriber }: ParsedReplayRequest): void {
  if (topic === undefined) return;
  if (!isTopicName(topic)) throw new NoSuchSubscription(`the topic ${topic}`);
  if (subscriber !== undefined && !catalog[topic].subscribers.some((listed) => listed === subscriber))
    throw new NoSuchSubscription(`${subscriber} for ${topic}`);
}

interface Earlier {
  readonly matched: number;
  readonly replayed: number;
}

/** Postgres's `unique_violation`. */
function isDuplicate(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === '23505';
}

/** Reads the result of a replay with the same id that ended after this one's statement began. */
async function earlierReplay(db: Database, id: string): Promise<Earlier | null> {
  const [row] = await run<Earlier>(driverOf(db), {
    text: 'select matched, replayed from replays where id = $1::uuid',
    values: [id],
  });
  return row ?? null;
}

// The pruning lock keeps the deliveries from being pruned meanwhile. A statement that changes the lane of a key in trouble
// also locks its home, so with the homes locked no such lane is added or deleted.
const LOCK = `
  with pruning as materialized (
    select pg_advisory_xact_lock_shared(${PRUNE_LOCK}, 0)
  )
  select statement_timestamp()::text as asked_at from pruning, lanes
  where home_id is null and case when $3::text is null
    then topic = $1::text and ($2::text is null or subscriber = $2::text)
    else id in (select split_part(id, '-', 1)::bigint from jsonb_array_elements_text($3::text::jsonb) as chosen(id)) end
  order by lanes.id for update of lanes`;

/** The newest entries of a delivery's log whose answers a replay keeps: two rounds of five attempts. */
const ANSWERS_KEPT = 10;

// The lane's head moves back to before the first replayed delivery; a relay that holds the lane sees that when it settles.
const statement = (matching: string) => `
  with ${matching},
  earlier as materialized (
    select matched, replayed from replays where id = $13::uuid
  ),
  is_on as materialized (
    select not $11::boolean and not exists (select from earlier)
      and ($12::bigint is null or $12::bigint = (select count(*) from matching))
      -- A refused request is not recorded.
      and case when $6::text is null then not exists (select from found) or exists (select from matching)
        else not exists (select from found where not is_listed) end as so
  ),
  chosen as materialized (
    select matching.*, lanes.topic, lanes.subscriber from matching join lanes on lanes.id = lane_id
    where (select so from is_on)
  ),
  put_back as (
    update deliveries set state = 'pending', attempts = 0, next_attempt_at = null, dead_lettered_at = null,
      delivered_at = null, error_group = null, dismissed_at = null, replayed_at = clock.now, replays = deliveries.replays + 1,
      -- Else the log of a delivery that is replayed again and again would grow by a page of text each time.
      attempt_log = case when jsonb_array_length(attempt_log) > ${ANSWERS_KEPT} then (
          select jsonb_agg(case when number > jsonb_array_length(attempt_log) - ${ANSWERS_KEPT} then entry
            else entry - 'answer' end order by number)
          from jsonb_array_elements(attempt_log) with ordinality as logged(entry, number)
        ) else coalesce(attempt_log, '[]') end
        || case when deliveries.state = 'delivered' then jsonb_build_array(jsonb_build_object('attempt', attempts,
          'at', attempted_at, 'durationMs', duration_ms, 'outcome', 'delivered')) else '[]' end
        || jsonb_build_array(jsonb_build_object('attempt', 0, 'at', clock.now, 'durationMs', 0, 'outcome', 'replayed',
          'replayId', $13::text, 'by', $14::text, 'reason', $15::text))
    from clock, chosen
    where deliveries.lane_id = chosen.lane_id and deliveries.position = chosen.position
    returning deliveries.lane_id, deliveries.lane_key, deliveries.position, deliveries.event_id, topic, subscriber,
      chosen.error_group, (chosen.error_group is not null)::int as was_dead
  ),
  moved_lane as (
    -- Always to another value while a relay holds the lane, so that its settlement sees that the head moved.
    update lanes set head = least(head, first.position - 1) - (lease_token is not null)::int, waits_for_version = null,
      due_at = case when lease_token is null then clock.now else due_at end
    from clock, (
      select coalesce(of_key.id, lane_id) as id, min(position) as position
      from put_back left join lanes as of_key on of_key.home_id = lane_id and of_key.held_key = lane_key
      group by 1
    ) as first
    where lanes.id = first.id
  ),
  change as materialized (
    select event_id, count(*)::int as open, sum(was_dead)::int as was_dead from put_back group by event_id
  ),
  locked_event as materialized (
    select events.id, topic, change.open, change.was_dead, state as was,
      postbud_event_state(events.open + change.open, events.failing, events.dead_lettered - change.was_dead) as becomes
    from events join change on events.id = change.event_id order by events.id for update of events
  ),
  changed_event as (
    update events set open = events.open + locked_event.open,
      dead_lettered = events.dead_lettered - locked_event.was_dead
    from locked_event where events.id = locked_event.id
    returning postbud_event_moved(locked_event.topic, was, becomes) as moved
  ),
  counted as materialized (
    select postbud_count_1(array(
      select row(topic, subscriber, count(*), 0, -sum(was_dead), 0, 0, 0, null, null)::postbud_change_1
      from put_back group by topic, subscriber
      union all
      select moved from changed_event
    ), clock.now)::text as done
    from clock where (select so from is_on)
  ),
  emptied_group as materialized (
    select key, put_back.count from error_groups join (
      select error_group, count(*) from put_back where error_group is not null group by error_group
    ) as put_back on error_group = key
    where (select count(done) from counted) >= 0 order by key for update of error_groups
  ),
  ungrouped as (
    update error_groups set dead_lettered = dead_lettered - emptied_group.count
    from emptied_group where error_groups.key = emptied_group.key
  ),
  recorded as (
    insert into replays (id, topic, requested_at, requested_by, reason, request, matched, replayed, recipients)
    select $13::uuid, $1::text, clock.now, $14::text, $15::text, $16::text::jsonb, (select count(*) from matching),
      (select count(*) from put_back), (
        select coalesce(jsonb_agg(jsonb_build_object('topic', topic, 'subscriber', subscriber, 'count', count)
          order by topic, subscriber), '[]')
        from (select topic, subscriber, count(*) from put_back group by topic, subscriber) as recipient
      )
    from clock where (select so from is_on)
  )
  select (select count(*)::int from matching) as matched, (select count(*)::int from put_back) as replayed,
    (select json_build_object('matched', matched, 'replayed', replayed) from earlier) as earlier,
    (select subscriber || ' for ' || topic from found where not is_listed order by topic, subscriber limit 1)
      as left_out`;

const REPLAY: Readonly<Record<Way, string>> = {
  chosen: statement(MATCHING.chosen),
  deadLetters: statement(MATCHING.deadLetters),
  dismissed: statement(MATCHING.dismissed),
  everything: statement(MATCHING.everything),
};
