import { v7 as uuidv7 } from 'uuid';
import * as z from 'zod';

import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import type { Database } from '../../platform/db/database.ts';
import { chosenFields, chosenPlan, findChosen, previewOf, unmatchedWarning } from '../kit/chosen.ts';
import { linked, mono, say } from '../kit/document.ts';
import { count, field, jsonOf, shapesOf, text } from '../kit/fields.ts';
import type { Row } from '../kit/fields.ts';
import { replaysPath } from '../kit/links.ts';
import { receiverWarnings } from '../kit/plan.ts';
import type { Plan, Warnings } from '../kit/plan.ts';
import type { ParsedReplayRequest } from '../kit/replay-request.ts';
import * as shape from '../kit/shapes.ts';
import { quantity } from '../kit/words.ts';
import { scopeWords } from './scope.ts';

const leftOutFields = {
  topic: text('topic'),
  subscriber: text('subscriber'),
  count: count('count(*)'),
  reason: field(
    z
      .enum(['not_in_catalog', 'refuses_replays'])
      .describe(
        '`not_in_catalog`: this release’s catalog does not list the subscriber for the topic. `refuses_replays`: its handler would act twice.',
      ),
    "case when bool_or(refuses) then 'refuses_replays' else 'not_in_catalog' end",
  ),
};

const moreFields = {
  leftOut: field(
    z
      .array(z.object(shapesOf(leftOutFields)).meta({ id: 'LeftOut' }))
      .describe('Deliveries that the replay would leave out, and why.'),
    `(
      select coalesce(json_agg(left_out order by topic, subscriber), '[]') from (
        select topic, subscriber, ${jsonOf(leftOutFields)} as left_out
        from found where not is_listed or refuses group by topic, subscriber
      ) as unlisted
    )`,
  ),
  isBesidePaced: field(
    z.boolean().describe('Whether a paced replay is under way, which may have some of them.'),
    'exists (select from paced_replays where ended_at is null)',
  ),
};

export const replayPreview = z
  .object({
    replayId: z.uuid(),
    topic: shape.topic.nullable(),
    since: z.string().nullable(),
    replayed: z.literal(0),
    ...shapesOf(chosenFields),
    ...shapesOf(moreFields),
  })
  .meta({
    id: 'ReplayPreview',
    description: 'The effect that a replay would have, in the form of its answer. Nothing was re-queued.',
  });

export type ReplayPreview = z.output<typeof replayPreview>;

/**
 * Previews a replay: which deliveries, to which subscribers, and whether those are healthy. Changes nothing.
 *
 * @param asked the request; without `until`, up to now.
 */
export async function previewReplay(
  db: Database,
  attached: readonly AttachedSubscriber[],
  { replayId = uuidv7(), ...asked }: ParsedReplayRequest,
): Promise<ReplayPreview> {
  const more = { leftOut: moreFields.leftOut.sql, isBesidePaced: moreFields.isBesidePaced.sql };
  const found = await findChosen<Row<typeof moreFields>>(db, attached, asked, 'matching', more);
  const { topic = null, since = null } = asked;
  return { replayId, topic, since, replayed: 0, ...previewOf(attached, { ...asked, replayId }, found) };
}

/** Says what a replay would do. */
export function replayPlan(view: ReplayPreview): Plan {
  const { matched, leftOut, request } = view;
  const { topic, perMinute = null, include } = request;
  const scope = [topic, scopeWords({ request, recipients: null })].filter(Boolean).join(', ');
  const isAllLeftOut = matched === 0 && leftOut.length > 0;
  const plan = chosenPlan(
    view,
    'Oldest first, same event ids, attempt numbers start again at 1',
    `Nothing matches: ${scope}.`,
  );
  return {
    ...plan,
    what: quantity(matched, include === 'all' ? 'delivery' : 'dead letter'),
    warnings: warningsOf(view),
    perMinute,
    request,
    ...(isAllLeftOut && { nothing: 'All that matches is left out.', isRefused: true }),
  };
}

/** What to consider before a replay. */
function warningsOf(view: ReplayPreview): Warnings {
  const { subscriptions, request, leftOut, isBesidePaced, matched } = view;
  const setAside = subscriptions.reduce(
    (sum, { skipped, dismissed }) => sum + skipped + (request.include === 'dismissed' ? 0 : dismissed),
    0,
  );
  return [
    request.include === 'all' && [
      'Delivered events are sent again too.',
      'A subscriber that does not recognise their event ids handles them twice.',
    ],
    isBesidePaced &&
      matched > 0 && [
        'A paced replay is under way, and this one takes from it what both have.',
        say`See ${linked(replaysPath({ only: 'replays' }), 'the replays')}.`,
      ],
    ...leftOut.map(
      ({ topic, subscriber, count: number, reason }) =>
        [
          `${quantity(number, 'delivery')} to ${subscriber} ${number === 1 ? 'is' : 'are'} left out.`,
          reason === 'refuses_replays'
            ? say`${subscriber} refuses replays of ${mono(topic)}, because it would act twice. Settle its dead letters another way, then dismiss them.`
            : say`This release’s catalog does not list ${subscriber} for ${mono(topic)}.`,
        ] as const,
    ),
    setAside > 0 && [
      `${quantity(setAside, 'delivery')} of these ${setAside === 1 ? 'was' : 'were'} skipped or dismissed by an operator.`,
      'Replay them only if what they were set aside for has changed.',
    ],
    unmatchedWarning(view),
    ...receiverWarnings(subscriptions),
  ];
}
