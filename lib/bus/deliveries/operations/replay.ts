import { v7 as uuidv7 } from 'uuid';

import { noteDue } from '../../../platform/db/commits.ts';
import type { Database } from '../../../platform/db/database.ts';
import { driverOf, run } from '../../../platform/db/statement.ts';
import type { AttachedSubscriber } from '../../subscribers/subscriber.ts';
import { CountChanged, NotActedOn, notListed, requireListed } from '../refusals.ts';
import { refusingReplays } from '../subscription.ts';
import { stepReplay } from './paced-replay.ts';
import { PRUNING, putBackBy } from './put-back.ts';
import { containing, matchingOf, matchingValues } from './replay-matching.ts';
import type { ReplayRequest } from './replay-matching.ts';

export interface Replay {
  readonly replayId: string;
  /** Null for deliveries that may be of several topics: chosen by id, or by a filter without a topic. */
  readonly topic: string | null;
  readonly since: string | null;
  readonly matched: number;
  /** Put back so far: of a paced replay only the first, until its other steps. */
  readonly replayed: number;
}

/**
 * Returns dead letters to pending, or all deliveries of a topic, with fresh attempts. The same statement records the
 * operator.
 *
 * Each delivery keeps its event, its position in the lane and its history, and is delivered before everything newer in
 * its lane. A delivery that is pending again already is left alone, so that a double click replays once; with a
 * `replayId` the second request gets the answer of the first.
 *
 * Deliveries to subscribers that the catalog does not list, or whose handlers refuse replays, are left out. A request
 * that matches nothing else is refused, and so is one that names a delivery of the former kind.
 *
 * With `perMinute` the deliveries are put back at that pace, in the order of their events, the first ones at once; see
 * `advanceReplays`.
 *
 * @param by the operator: the token's subject.
 * @param now overrides the database's clock in tests.
 * @param attached tells whose handlers refuse replays.
 * @throws NotActedOn `no_such_subscription`, `replay_refused` or `count_changed`.
 */
export async function replay(
  db: Database,
  asked: ReplayRequest,
  by: string,
  now?: Date,
  attached: readonly AttachedSubscriber[] = [],
): Promise<Replay> {
  requireListed(asked);
  requireRunning(asked, attached);
  const { topic = null, since = null, expectedCount, reason } = asked;
  const id = asked.replayId ?? uuidv7();
  const request = async () =>
    await putBack(db, asked, now, (at) => [
      ...matchingValues(asked, attached, at),
      expectedCount ?? null,
      id,
      by,
      reason ?? null,
      JSON.stringify(asked),
    ]);
  const row = await request().catch(async (error: unknown) => {
    // The same request was recorded while this one ran: this one is rolled back, and gets the answer of the other.
    if (isDuplicate(error)) return await request();
    throw error;
  });
  const { matched, replayed, earlier } = row;
  if (earlier) return { replayId: id, topic, since, ...earlier };
  requireMatch(row, asked);
  if (expectedCount !== undefined && matched !== expectedCount)
    throw new CountChanged(expectedCount, matched, 'replayed');
  if (asked.perMinute === undefined) return { replayId: id, topic, since, matched, replayed };
  const begun = await stepReplay(db, { attached, replayId: id, ...(now && { now }) });
  return { replayId: id, topic, since, matched, replayed: begun ?? 0 };
}

async function putBack(
  db: Database,
  asked: ReplayRequest,
  now: Date | undefined,
  valuesAt: (at: string | null) => readonly unknown[],
): Promise<ReplayRow> {
  const at = now?.toISOString() ?? null;
  if (asked.perMinute !== undefined) {
    // It changes no delivery yet, so it needs no locks.
    const [row] = await run<ReplayRow>(driverOf(db), {
      text: beginning(matchingOf(asked)),
      values: [...valuesAt(at), asked.perMinute],
    });
    return row!;
  }
  const { topic = null, subscriber = null, deliveryIds, group = null, q } = asked;
  const ofLanes = [topic, subscriber, deliveryIds ? JSON.stringify(deliveryIds) : null, group, q || null];
  return await db.transaction(async (tx) => {
    const [locked] = await run<Locked>(tx, { text: LOCK, values: ofLanes });
    const { asked_at: askedAt, lanes } = locked!;
    // What died while it waited for the locks is not part of the request.
    const values = [...valuesAt(at ?? askedAt), lanes];
    const [row] = await run<ReplayRow>(tx, { text: replaying(matchingOf(asked)), values });
    if (row!.replayed > 0) noteDue(tx);
    return row!;
  });
}

interface Locked {
  readonly asked_at: string;
  /** In Postgres's notation. */
  readonly lanes: string;
}

interface ReplayRow extends Earlier {
  readonly earlier: Earlier | null;
  /** A subscription that was left out because the catalog does not list it, such as `accounting for payment.captured`. */
  readonly left_out: string | null;
  /** One whose handler refuses replays. */
  readonly refused: string | null;
}

/** @throws NotActedOn `no_such_subscription` or `replay_refused` */
function requireMatch({ matched, left_out: leftOut, refused }: ReplayRow, asked: ReplayRequest): void {
  if (leftOut !== null && (matched === 0 || asked.deliveryIds)) throw notListed(leftOut);
  if (refused !== null && matched === 0) throw refusing(refused);
}

/** @throws NotActedOn `replay_refused` when the request names a subscription that refuses replays. */
function requireRunning({ topic, subscriber }: ReplayRequest, attached: readonly AttachedSubscriber[]): void {
  if (topic === undefined || subscriber === undefined) return;
  if (refusingReplays(attached).includes(`${topic} ${subscriber}`))
    throw refusing(`${subscriber} for ${topic}`);
}

/** @param subscription for example `notifications for payment.captured`. */
function refusing(subscription: string): NotActedOn {
  return new NotActedOn(
    'replay_refused',
    `Replays leave out ${subscription}: its handler refuses them, because it would act twice. Nothing was replayed. Handle these dead letters by hand, then dismiss them.`,
  );
}

type Earlier = Pick<Replay, 'matched' | 'replayed'>;

/** Postgres's `unique_violation`. */
function isDuplicate(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === '23505';
}

// The lanes of the request; without a topic, of the subscriptions that have such dead letters now.
const LOCK = `
  with ${PRUNING},
  wanted as materialized (
    select array(
      select id from lanes where case
        when $3::text is not null then (stream, subscriber) in (
          select stream, substr(chosen, 38)
          from jsonb_array_elements_text($3::text::jsonb) as chosen, lateral (
            select stream from log where event_id = left(chosen, 36)::uuid limit 1
          ) as place
        )
        when $1::text is not null then topic = $1::text and ($2::text is null or subscriber = $2::text)
        else (topic, subscriber) in (
          select topic, subscriber from error_groups
          where ($2::text is null or subscriber = $2::text)
            and ($4::text is null or key = any (string_to_array($4::text, ','))) and ${containing('$5::text')}
        ) end
    ) as ids from pruning
  )
  select statement_timestamp()::text as asked_at, ids::text as lanes, postbud_lock_lanes_2(ids) from wanted`;

const chosenOf = (matching: string, ofLanes = 'true') => `
  with ${matching},
  earlier as materialized (
    select matched, coalesce(put_back, replayed) as replayed from replays left join paced_replays on replay_id = id
    where id = $12::uuid
  ),
  is_on as materialized (
    select not exists (select from earlier)
      and ($11::bigint is null or $11::bigint = (select count(*) from matching))
      -- A refused request is not recorded.
      and (not exists (select from found) or exists (select from matching))
      and ($6::text is null or not exists (select from found where not is_listed)) as so
  ),
  chosen as materialized (
    select * from matching where (select so from is_on) and ${ofLanes}
  )`;

/** @param recipients the relation of topic, subscriber and count. */
const recordedOf = (recipients: string, replayed: string) => `
  recorded as (
    insert into replays (id, topic, requested_at, requested_by, reason, request, matched, replayed, recipients)
    select $12::uuid, $1::text, clock.now, $13::text, $14::text, $15::text::jsonb, (select count(*) from matching),
      ${replayed}, (
        select coalesce(jsonb_agg(jsonb_build_object('topic', topic, 'subscriber', subscriber, 'count', count)
          order by topic, subscriber), '[]')
        from (select topic, subscriber, ${recipients} group by topic, subscriber) as recipient
      )
    from clock where (select so from is_on)
  )
  select (select count(*)::int from matching) as matched, ${replayed}::int as replayed,
    (select json_build_object('matched', matched, 'replayed', replayed) from earlier) as earlier,
    (select subscriber || ' for ' || topic from found where not is_listed order by topic, subscriber limit 1)
      as left_out,
    (select subscriber || ' for ' || topic from found where refuses order by topic, subscriber limit 1) as refused`;

// Without a topic, the first dead letter of another subscription may have come after the locks: it is left alone.
const replaying = (matching: string) =>
  `${chosenOf(matching, 'lane = any ($16::text::int[])')},${putBackBy({ id: '$12::text', by: '$13::text', reason: '$14::text' })},${recordedOf('sum(count) as count from put_back', '(select coalesce(sum(count), 0) from put_back)')}`;

// A record of replays never changes, so that of a paced one counts none.
const beginning = (matching: string) => `${chosenOf(matching)},
  paced as (
    insert into paced_replays (replay_id, per_minute, planned, next_at, ended_at)
    select $12::uuid, $16::int, (select count(*) from chosen), clock.now,
      case when not exists (select from chosen) then clock.now end
    from clock where (select so from is_on)
  ),${recordedOf('count(*) from chosen', '0')}`;
