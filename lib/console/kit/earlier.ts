import * as z from 'zod';

import { readDeliveryId } from '../../bus/deliveries/delivery-id.ts';
import { containing } from '../../bus/deliveries/operations/replay-matching.ts';
import { NotActedOn } from '../../bus/deliveries/refusals.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { Problem } from '../../platform/http/problem.ts';
import { DAY, MINUTE } from '../../platform/time.ts';
import { earlierPhrase } from './earlier-words.ts';
import { count, field, instant, jsonOf, shapesOf, text, textOrNull } from './fields.ts';
import { deadLetterPath, replayedPath, replaysPath } from './links.ts';
import { operatorNameSql } from './operator-names.ts';
import { problemOf } from './problem-of.ts';

// Two operators act on the same deliveries: the second reads who was first, when, and where it is to be seen.

const earlierFields = {
  by: text('by'),
  byName: textOrNull(operatorNameSql('by'), 'What the directory calls them, where it is known.'),
  at: instant('at'),
  action: field(z.enum(['replayed', 'dismissed', 'skipped', 'retried', 'tried']), 'action'),
  count: count('count', 'The deliveries that it took, which may be more than those asked for now.'),
  path: text('path', 'The page that shows it.'),
};
export const earlier = z
  .object(shapesOf(earlierFields))
  .meta({ id: 'Earlier', description: 'What an operator did first with deliveries that are asked for now.' });
type Earlier = z.output<typeof earlier>;

/** What somebody may have taken first: deliveries by their ids, or all of a filter. */
interface Taken {
  readonly deliveryIds?: readonly string[] | undefined;
  readonly topic?: string | undefined;
  readonly subscriber?: string | undefined;
  readonly group?: string | undefined;
  /** Words of the error. */
  readonly q?: string | undefined;
  /** The end of the window: once it is an instant, that of the preview. */
  readonly until?: string | undefined;
}

/**
 * Finds who acted on the same deliveries: on one of those that are named, the last one ever; on a filter's, the last one
 * since the preview, or else of the last day. A replay that still puts deliveries back counts whenever it began.
 *
 * @param withinMs only what was done in this time.
 */
export async function readEarlier(
  db: Database,
  { deliveryIds, topic, subscriber, group, q, until }: Taken,
  withinMs: number | null = null,
): Promise<Earlier | null> {
  const isPreviewed = until !== undefined && /^\d{4}-/.test(until);
  const [row] = await run<{ earlier: Earlier }>(
    driverOf(db),
    deliveryIds
      ? { text: ON_DELIVERIES, values: [JSON.stringify(deliveryIds.filter(readDeliveryId)), withinMs] }
      : {
          text: ON_FILTER,
          values: [
            topic ?? null,
            subscriber ?? null,
            group ?? null,
            isPreviewed ? until : null,
            withinMs ?? DAY,
            q || null,
          ],
        },
  );
  if (!row) return null;
  const { path: id, ...found } = row.earlier;
  return { ...found, path: pathOf(found.action, id) };
}

/** @param id of the replay, or of the delivery; empty for a dismissal of many. */
function pathOf(action: Earlier['action'], id: string): string {
  if (action === 'replayed') return replayedPath(id);
  return id === '' ? replaysPath() : deadLetterPath(id);
}

/** Problems of who comes second. A relay may be under way because of a retry a moment ago. */
const LATE: Readonly<Record<string, number | null>> = {
  count_changed: null,
  not_waiting: null,
  not_dead: null,
  under_way: MINUTE,
};

/** Waits for an action. @throws Problem for one that was refused, which says who was first, if someone was. */
export async function orEarlier<Done>(db: Database, taken: Taken, acting: Promise<Done>): Promise<Done> {
  try {
    return await acting;
  } catch (error) {
    const problem = problemOf(error);
    if (!(error instanceof NotActedOn && problem instanceof Problem)) throw problem;
    const withinMs = LATE[error.code];
    const found = withinMs === undefined ? null : await readEarlier(db, taken, withinMs);
    if (found === null) throw problem;
    const words = earlierPhrase(found, new Date().toISOString()).text;
    throw new Problem(error.code, { detail: `${problem.detail} ${words}`, cause: error });
  }
}

/** Finds the deliveries that were skipped for an incident in the last day: as many as one request takes. */
export async function skippedLately(db: Database, incidentId: string): Promise<readonly string[]> {
  const found = await run<{ id: string }>(driverOf(db), { text: SKIPPED_LATELY, values: [incidentId, DAY] });
  return found.map(({ id }) => id);
}

const SKIPPED_LATELY = `
  select delivery_id as id from operator_actions
  where incident_id = $1::text::uuid and action = 'skip'
    and at >= clock_timestamp() - $2::float8 * interval '1 millisecond'
  order by at desc limit 1000`;

const ACTIONS = `case outcome when 'retried_early' then 'retried' when 'probed' then 'tried' else outcome end`;

// Those of one replay are one act, and so are those of one dismissal, which have its instant.
const ON_DELIVERIES = `
  with entry as (
    select id, last.entry ->> 'by' as by, (last.entry ->> 'at')::timestamptz as at, last.entry ->> 'outcome' as outcome,
      last.entry ->> 'replayId' as replay_id
    from (
      select event_id || '.' || subscriber as id, attempt_log from deliveries
      where event_id = any (array(
          select distinct split_part(id, '.', 1)::uuid from jsonb_array_elements_text($1::text::jsonb) as id
        ))
        and event_id || '.' || subscriber in (select id from jsonb_array_elements_text($1::text::jsonb) as id)
    ) as chosen
      cross join lateral (
        select entry from jsonb_array_elements(attempt_log) with ordinality as log(entry, number)
        where entry ->> 'outcome' in ('replayed', 'dismissed', 'skipped', 'retried_early', 'probed')
        order by number desc limit 1
      ) as last
  ),
  act as (
    select by, max(at) as at, ${ACTIONS} as action, count(*) as count, coalesce(replay_id, min(id)) as path
    from entry group by by, outcome, replay_id, case when outcome = 'dismissed' then at end
  )
  select ${jsonOf(earlierFields)} as earlier from act
  where at >= coalesce(clock_timestamp() - $2::float8 * interval '1 millisecond', '-infinity')
  order by at desc limit 1`;

const ON_FILTER = `
  with asked as materialized (
    select coalesce($4::text::timestamptz, clock_timestamp() - $5::float8 * interval '1 millisecond') as since,
      coalesce($3::text, $6::text) is not null as is_of_errors
  ),
  asked_error as materialized (
    select * from error_groups
    where ($3::text is null or key = any (string_to_array($3::text, ','))) and ${containing('$6::text')}
  ),
  taken as (
    select requested_by as by, requested_at as at, 'replayed' as action,
      coalesce(planned, replayed) as count, id::text as path
    from asked, replays left join paced_replays on replay_id = id
    where (requested_at >= since or id = any (array(select replay_id from paced_replays where ended_at is null)))
      and exists (
        select from jsonb_to_recordset(recipients) as recipient(topic text, subscriber text)
        where ($1::text is null or recipient.topic = $1::text)
          and ($2::text is null or recipient.subscriber = $2::text)
          and (not is_of_errors or exists (
            select from asked_error
            where (asked_error.topic, asked_error.subscriber) = (recipient.topic, recipient.subscriber)
              and coalesce(key = any (string_to_array(request ->> 'group', ',')), true)
              and ${containing("(request ->> 'q')")}
          ))
      )
    union all
    select operator, at, 'dismissed', (select count(*) from exceptions where dismissed_at = at), coalesce(delivery_id, '')
    from (
      select operator, at, delivery_id from asked, operator_actions
      where at >= since and action = 'dismiss' and ($1::text is null or topic = $1::text)
        and ($2::text is null or subscriber = $2::text)
        and (not is_of_errors or (topic, subscriber) in (select topic, subscriber from asked_error))
      order by at desc limit 1
    ) as dismissal
  )
  select ${jsonOf(earlierFields)} as earlier from taken where count > 0 order by at desc limit 1`;
