import * as z from 'zod';

import type { Database } from '../../platform/db/database.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { mono, say, subscriberPhrase, when } from '../kit/document.ts';
import { count as countField, field, instant, jsonOf, shapesOf, text } from '../kit/fields.ts';
import { requestedFields, statesWords } from '../kit/progress.ts';
import type { HowFar } from '../kit/progress.ts';
import * as shape from '../kit/shapes.ts';
import { count } from '../kit/words.ts';

/** What a page that asks each second may count: it takes 0.1 s. */
const COUNTED = 100_000;

const backfillFields = {
  backfillId: field(z.uuid(), 'asked.id'),
  topic: text('asked.topic'),
  subscriber: text('asked.subscriber'),
  since: instant('since', 'The events since then.'),
  ...requestedFields(
    // A stop is recorded with the moment at which it ended the backfill.
    `stop.at = ended_at and stop.action = 'stop_backfill' and stop.topic = asked.topic
      and stop.subscriber = asked.subscriber`,
    'ended_at',
  ),
  matched: countField('matched', 'Deliveries that were missing when it began.'),
  written: countField('written', 'Written so far. The cron continues the rest.'),
  progress: field(
    z
      .object({ ...shape.counts, delivered: shape.count, isMore: z.boolean() })
      .describe(
        `The written deliveries by state. \`delivered\` includes those that an operator dismissed. With \`isMore\` more than ${COUNTED} are open or dead: of these, no more are counted.`,
      ),
    `json_build_object('pending', pending, 'failing', failing, 'deadLettered', dead.count,
      'delivered', greatest(0, written - pending - failing - dead.count),
      'isMore', greatest(pending + failing, dead.count) > ${COUNTED})`,
  ),
};

export const backfillProgress = z
  .object(shapesOf(backfillFields))
  .meta({ id: 'BackfillProgress', description: 'A backfill and the states of its deliveries now.' });

export type BackfillProgress = z.output<typeof backfillProgress>;

/** Reads one backfill and counts the states of its deliveries. @returns null for an unknown one. */
export async function readBackfill(db: Database, backfillId: string): Promise<BackfillProgress | null> {
  const [row] = await run<{ found: BackfillProgress }>(driverOf(db), {
    text: PROGRESS,
    values: [backfillId],
  });
  return row?.found ?? null;
}

// What it has written are exceptions of the subscription.
const PROGRESS = `
  with asked as materialized (
    select * from backfills where id = $1::uuid
  ),
  lane as materialized (
    select lanes.id from asked join lanes on lanes.topic = asked.topic and lanes.subscriber = asked.subscriber
  ),
  open as (
    select count(*) filter (where state = 'pending') as pending, count(*) filter (where state = 'failing') as failing
    from (
      select state from lane join exceptions on exceptions.lane = lane.id where is_open and backfilled limit ${COUNTED + 1}
    ) as counted
  ),
  dead as (
    select count(*) as count from (
      select from asked join error_groups on error_groups.topic = asked.topic and error_groups.subscriber = asked.subscriber
        join exceptions on error_group = key
      where backfilled limit ${COUNTED + 1}
    ) as counted
  )
  select ${jsonOf(backfillFields)} as found
  from asked, open, dead`;

/** Says how far a backfill is, and what became of what is written. */
export function backfillFar(view: BackfillProgress): HowFar {
  const { topic, subscriber, since, matched, written, progress, endedAt, stopped, generatedAt: now } = view;
  const state = stopped ? 'Stopped' : endedAt === null ? 'Under way' : 'Backfilled';
  const delivered = progress.isMore ? [] : [`${count(progress.delivered)} delivered`];
  const became = [...delivered, ...statesWords(progress)].join(', ');
  return {
    of: mono(topic),
    lead: say`To ${subscriberPhrase(subscriber)}, events since ${when(since, now)}.${endedAt === null && ' Newer events wait until it has come to them.'}`,
    words: `${state}: ${count(written)} of ${count(matched)} written.${written > 0 ? ` ${became}.` : ''}`,
    left: matched - written,
    states: progress,
    subscriber,
  };
}
