import * as z from 'zod';

import type { Database } from '../../platform/db/database.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { link, mono } from '../kit/document.ts';
import { count as countField, field, jsonOf, shapesOf, textOrNull } from '../kit/fields.ts';
import { deadLetterPath } from '../kit/links.ts';
import { requestedFields, statesWords } from '../kit/progress.ts';
import type { HowFar } from '../kit/progress.ts';
import * as shape from '../kit/shapes.ts';
import { count, joinNames, numbers } from '../kit/words.ts';
import { nameOf, scopeWords } from './scope.ts';

export const recipientsField = field(
  z
    .array(z.object({ topic: shape.topic, subscriber: z.string(), count: shape.count }))
    .nullable()
    .describe(
      'The subscribers that got the re-queued deliveries. Null for a replay by a release that did not record them.',
    ),
  'recipients',
);

/** So far, of a paced one. */
const REPLAYED = 'coalesce((select put_back from paced_replays where replay_id = replays.id), replayed)';

const IS_STOP = "stop.replay_id = replays.id and stop.action = 'stop_replay'";

const LEFT = `case when ended_at is null or exists (select from operator_actions as stop where ${IS_STOP})
      then planned - put_back else 0 end`;

const stateFields = {
  pending: countField('pending'),
  failing: countField('failing'),
  deadLettered: countField('dead'),
  delivered: countField('delivered'),
  replayedAgain: countField(`${REPLAYED} - pending - failing - dead - delivered`),
};

const progressFields = {
  replayId: field(z.uuid(), 'replays.id'),
  topic: textOrNull('replays.topic', 'Null if the deliveries may be of several topics.'),
  ...requestedFields(IS_STOP, 'case when planned is null then requested_at else ended_at end'),
  request: field(z.record(z.string(), z.unknown()).describe('The request as it was sent.'), 'request'),
  matched: countField('matched'),
  replayed: countField(REPLAYED, 'Deliveries put back. Of a paced replay, so far.'),
  left: countField(
    `coalesce(${LEFT}, 0)`,
    'Deliveries that a paced one has not put back yet; of a stopped one, that stay as they were.',
  ),
  recipients: recipientsField,
  progress: field(
    z.object(shapesOf(stateFields)).describe('The states of its deliveries now; they add up to `replayed`.'),
    jsonOf(stateFields),
  ),
};
export const replayProgress = z.object(shapesOf(progressFields)).meta({
  id: 'ReplayProgress',
  description: 'A replay and the states of its deliveries now.',
});

export type ReplayProgress = z.output<typeof replayProgress>;

/** Reads one replay and counts the states of its deliveries. @returns null for an unknown replay. */
export async function readReplay(db: Database, replayId: string): Promise<ReplayProgress | null> {
  const [row] = await run<{ found: ReplayProgress }>(driverOf(db), {
    text: PROGRESS,
    values: [replayId],
  });
  return row?.found ?? null;
}

const PROGRESS = `
  select ${jsonOf(progressFields)} as found
  from replays left join paced_replays on paced_replays.replay_id = replays.id, lateral (
    select count(*) filter (where state = 'pending') as pending, count(*) filter (where state = 'failing') as failing,
      count(*) filter (where state = 'dead_lettered') as dead, count(*) filter (where state = 'delivered') as delivered
    from replay_instants join exceptions on replayed_at = at where replay_instants.replay_id = replays.id
  ) as progress
  where replays.id = $1::uuid`;

/** Says how far a replay is, and what became of its deliveries. */
export function replayFar(view: ReplayProgress): HowFar {
  const { topic, progress, replayed, left, matched, request, recipients, stopped, endedAt } = view;
  const { deliveryIds, subscriber } = request;
  const [single, ...more] = Array.isArray(deliveryIds) ? deliveryIds.map(String) : [];
  const delivered = `${count(progress.delivered)} of ${count(replayed)} delivered`;
  const others = numbers([
    [progress.replayedAgain, 'replayed again'],
    [left, stopped === null ? 'left to put back' : 'not put back: it was stopped'],
    [
      endedAt === null ? 0 : matched - replayed - left,
      'passed over, because they were replayed, dismissed, pruned or refused meanwhile',
    ],
  ]);
  return {
    of: topic === null ? nameOf(view).toLowerCase() : mono(topic),
    lead: scopeWords(view),
    words: `Replayed: ${[delivered, ...statesWords(progress), ...others].join(', ')}.`,
    left,
    states: progress,
    subscriber: typeof subscriber === 'string' ? subscriber : null,
    facts: [
      topic === null &&
        recipients !== null && ['Topics', joinNames([...new Set(recipients.map((one) => one.topic))])],
      single !== undefined && more.length === 0 && ['Delivery', link(deadLetterPath(single), single)],
    ],
  };
}
