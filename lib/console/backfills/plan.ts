import { v7 as uuidv7 } from 'uuid';
import * as z from 'zod';

import { backfillUnderWay, previewBackfill } from '../../bus/deliveries/operations/backfill.ts';
import { KEEP_MS } from '../../bus/deliveries/prune.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import type { Database } from '../../platform/db/database.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { Problem } from '../../platform/http/problem.ts';
import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { DAY, msOf } from '../../platform/time.ts';
import { hiddenField } from '../kit/actions.ts';
import { mono, say, spanPhrase, subscriberPhrase, when } from '../kit/document.ts';
import { count as countField, field, instant, jsonOf, shapesOf } from '../kit/fields.ts';
import type { Row } from '../kit/fields.ts';
import type { PageContext } from '../kit/layout.ts';
import { backfilledPath, backfillPath, topicPath } from '../kit/links.ts';
import { receiverWarnings } from '../kit/plan.ts';
import type { Plan } from '../kit/plan.ts';
import { ago, isInstant, OPERATED, ownId, topicText } from '../kit/replay-request.ts';
import * as shape from '../kit/shapes.ts';
import { isAttached } from '../kit/subscription.ts';
import { quantity } from '../kit/words.ts';

/** How a beginning is written. */
const SINCE =
  'expected a time span such as 30d or 12h (units s, m, h, d, w), at most ten years, or a past instant in UTC such as 2026-02-21T09:35:00Z';

/** A backfill as an operator requests it. */
export const backfillRequest = z.strictObject({
  topic: topicText,
  subscriber: z
    .string('expected a subscriber of the catalog, such as ledger')
    .regex(/^[\w.-]{1,100}$/, 'expected a subscriber of the catalog, such as ledger')
    .describe('A subscriber that this release’s catalog lists for the topic.'),
  since: z
    .string(SINCE)
    .refine((text) => ago.safeParse(text).success || isPast(text), SINCE)
    .describe('Events recorded since then: a time span before now (`30d`, `12h`) or an instant in UTC.'),
  perMinute: z
    .int()
    .positive()
    // Faster than that, it need not be paced.
    .max(100_000)
    .optional()
    .describe('Writes at most this many a minute. Without it all are written as fast as the database can.'),
  ...OPERATED,
  backfillId: ownId,
});

export type ParsedBackfillRequest = z.output<typeof backfillRequest>;

function isPast(text: string): boolean {
  return isInstant(text) && Date.parse(text) <= Date.now();
}

/** @param since as a request has it. @param now epoch milliseconds. */
export function sinceOf(since: string, now: number): Date {
  const ms = msOf(since);
  return ms > 0 ? new Date(now - ms) : new Date(since);
}

const prunedFields = {
  events: countField('coalesce(sum(events), 0)'),
  firstDay: field(z.iso.date().nullable().describe('In UTC.'), 'min(day)'),
};

const foundFields = {
  generatedAt: instant('clock_timestamp()'),
  paused: field(
    z.boolean(),
    "exists (select from pauses where subscriber = $2::text and topic in ('', $1::text))",
  ),
  pruned: field(
    z
      .object(shapesOf(prunedFields))
      .describe('Events since then that were pruned, so that no backfill can reach them.'),
    `(
      select ${jsonOf(prunedFields)}
      from pruned_events where topic = $1::text and day >= ($3::timestamptz at time zone 'utc')::date
    )`,
  ),
};

export const backfillPreview = z
  .object({
    ...shapesOf(foundFields),
    request: z
      .object(backfillRequest.shape)
      .omit({ dryRun: true, reason: true })
      .describe('The request to send, with an instant as `since`, and with `expectedCount`.'),
    matched: shape.count.describe('Missing deliveries.'),
    oldestAt: shape.instant.nullable().describe('When the oldest of their events was recorded.'),
    newestAt: shape.instant.nullable(),
    newerDelivered: shape.count.describe(
      'Newer events that the subscriber was handed already: the backfilled ones can’t come before them any more.',
    ),
    attached: z.boolean(),
  })
  .meta({
    id: 'BackfillPreview',
    description: 'The effect that a backfill would have. Nothing was written.',
  });

export type BackfillPreview = z.output<typeof backfillPreview>;

/** Previews a backfill: which deliveries are missing, what is lost, and what would wait meanwhile. Changes nothing. */
export async function readPreview(
  db: Database,
  attached: readonly AttachedSubscriber[],
  asked: ParsedBackfillRequest,
): Promise<BackfillPreview> {
  const { dryRun: _, reason: __, backfillId = uuidv7(), ...request } = asked;
  const { topic, subscriber } = asked;
  const underWay = await backfillUnderWay(db, asked);
  if (underWay !== null)
    throw new Problem('backfill_under_way', {
      detail: `A backfill of ${topic} to ${subscriber} is under way. Wait until it has ended, or stop it: ${backfilledPath(underWay)}.`,
    });
  const sinceAt = sinceOf(asked.since, Date.now());
  const since = sinceAt.toISOString();
  const { alreadyDelivered: newerDelivered, ...missing } = await previewBackfill(db, {
    topic,
    subscriber,
    since: sinceAt,
  });
  const [row] = await run<{ found: Row<typeof foundFields> }>(driverOf(db), {
    text: `select ${jsonOf(foundFields)} as found`,
    values: [topic, subscriber, since],
  });
  return {
    ...row!.found,
    ...missing,
    request: { ...request, backfillId, since, expectedCount: missing.matched },
    newerDelivered,
    attached: isAttached(asked, attached),
  };
}

/** Says what a backfill would write. */
export function backfillPlan(view: BackfillPreview): Plan {
  const { oldestAt, newestAt, generatedAt: now, matched, request, newerDelivered, pruned } = view;
  const { topic, subscriber, since } = request;
  const them = newerDelivered === 1 ? 'it' : 'them';
  return {
    what: quantity(matched, 'delivery'),
    matched,
    warnings: [
      newerDelivered > 0 && [
        `${subscriber} was already handed ${quantity(newerDelivered, 'newer event')} of ${topic}.`,
        `The backfilled ones can’t come before ${them} any more. To keep the order for a new subscriber, pause it before the release that lists it (npx postbud pause ${subscriber} --topic ${topic} --ahead), backfill, then resume it.`,
      ],
      pruned.events > 0 && [
        `${quantity(pruned.events, 'event')} of ${topic} since ${pruned.firstDay} (UTC) ${pruned.events === 1 ? 'was' : 'were'} pruned.`,
        `Delivered events are kept for ${KEEP_MS / DAY} days. No backfill can reach older ones.`,
      ],
      ...receiverWarnings([{ ...view, subscriber }]),
    ],
    facts: [
      ['Topic', mono(topic)],
      ['Goes to', say`${subscriberPhrase(subscriber)} only`],
      oldestAt !== null && newestAt !== null && ['Recorded', spanPhrase(oldestAt, newestAt, now)],
      ['Order', 'In the order of creation, oldest first, with the same event ids'],
      [
        'Meanwhile',
        `Newer events wait for ${subscriber} until the backfill has come to them. Producers go on.`,
      ],
    ],
    perMinute: request.perMinute ?? null,
    request,
    cancel: topicPath(topic),
    below: (context) => sinceForm(request, context),
    nothing:
      matched === 0 &&
      say`${subscriber} already has every stored event of ${mono(topic)} since ${when(since, now)}.`,
  };
}

/** The form that previews the same backfill since another time. */
function sinceForm({ topic, subscriber, since }: BackfillPreview['request'], { url }: PageContext): Html {
  return html`<form class="filters" method="get" action="${backfillPath({})}">
    ${hiddenField('topic', topic)} ${hiddenField('subscriber', subscriber)}
    <label class="f">
      Since
      <input
        name="since"
        required
        value="${url.searchParams.get('since') ?? since}"
        size="24"
        autocomplete="off"
        spellcheck="false"
        title="A time span such as 30d or 12h, or an instant such as 2026-02-21T09:35:00Z"
      />
    </label>
    <button class="btn">Preview again</button>
  </form>`;
}
