import * as z from 'zod';

import { matchingOf, matchingValues } from '../../bus/deliveries/operations/replay-matching.ts';
import type { ReplayRequest } from '../../bus/deliveries/operations/replay-matching.ts';
import { SKIPPED } from '../../bus/deliveries/operations/skip.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import type { Database } from '../../platform/db/database.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { msOf } from '../../platform/time.ts';
import { linked, countColumn, errorPhrase, mono, say, spanPhrase, subscriberPhrase } from './document.ts';
import type { List, Part } from './document.ts';
import { computed, count, exactInstantSql, field, instantOrNull, jsonOf, shapesOf, text } from './fields.ts';
import type { Row } from './fields.ts';
import { ALL_TIME, deadLetterPath, deadLettersPath, incidentPath, replaysPath } from './links.ts';
import type { Plan, Warnings } from './plan.ts';
import { replayRequest } from './replay-request.ts';
import * as shape from './shapes.ts';
import { isAttached } from './subscription.ts';
import { groupWords, quantity } from './words.ts';

// Dead letters that an operator has chosen, before they are replayed or dismissed together.

const subscriptionFields = {
  topic: text('topic'),
  subscriber: text('subscriber'),
  count: count('count'),
  skipped: count('skipped', 'How many of them an operator skipped.'),
  dismissed: count('dismissed', 'How many of them an operator dismissed.'),
  halting: count('halting', 'Lanes that these dead letters halt.'),
  attached: computed(z.boolean()),
  paused: field(
    z.boolean(),
    `exists (select from pauses where pauses.subscriber = subscription.subscriber
        and pauses.topic in ('', subscription.topic))`,
  ),
  isStillFailing: field(
    z.boolean(),
    `exists (select from subscription_counts as known where known.topic = subscription.topic
        and known.subscriber = subscription.subscriber
        and last_failed_at > coalesce(last_delivered_at, '-infinity'))`,
  ),
};

/** What is said of them before anything is done. */
export const chosenFields = {
  generatedAt: field(shape.instant, exactInstantSql('clock.now')),
  request: computed(
    z
      .object(replayRequest.shape)
      .partial()
      .describe('The request to send, with `until` and `expectedCount`.'),
  ),
  matched: count('(select count(*) from letter)'),
  firstAt: instantOrNull('(select min(ended_at) from letter)', 'When the oldest of them ended.'),
  lastAt: instantOrNull('(select max(ended_at) from letter)'),
  unmatched: field(
    z
      .array(z.string())
      .describe('Of deliveries chosen by their ids: those that are not dead-lettered, or unknown.'),
    `(
      select coalesce(json_agg(id order by id), '[]')
      from (select distinct id from jsonb_array_elements_text($6::text::jsonb) as id) as asked
      where id not in (select event_id || '.' || subscriber from found)
    )`,
  ),
  error: field(
    shape.lastError.nullable(),
    "(select json_build_object('kind', kind, 'message', message) from error_groups where key = $3::text)",
  ),
  subscriptions: computed(
    z.array(z.object(shapesOf(subscriptionFields)).meta({ id: 'ChosenOfSubscription' })),
  ),
};
const chosen = z.object(shapesOf(chosenFields));
type Chosen = z.output<typeof chosen>;

interface Found extends Row<typeof chosenFields> {
  /** The window, to the microsecond; a null beginning: it has none. */
  readonly span: { readonly since: string | null; readonly until: string };
  readonly subscriptions: readonly Row<typeof subscriptionFields>[];
}

/**
 * Finds what was chosen, and changes nothing.
 *
 * @param letters those of `matchingOf` that it is about. @param more fields of the answer beyond these.
 */
export async function findChosen<More = unknown>(
  db: Database,
  attached: readonly AttachedSubscriber[],
  asked: ReplayRequest,
  letters: 'matching' | 'found where not is_dismissed',
  more: Readonly<Record<string, string>> = {},
): Promise<Found & More> {
  const [row] = await run<{ found: Found & More }>(driverOf(db), {
    text: statement(matchingOf(asked), letters, more),
    values: matchingValues(asked, attached),
  });
  return row!.found;
}

const statement = (matching: string, letters: string, more: Readonly<Record<string, string>>) => `
  with ${matching},
  letter as materialized (
    select * from ${letters}
  ),
  subscription as materialized (
    select topic, subscriber, count(*) as count, count(*) filter (where is_open) as halting,
      count(*) filter (where is_dismissed) as dismissed, count(*) filter (where error_group in (
        select key from error_groups where (kind, message) = ('${SKIPPED.kind}', '${SKIPPED.message}')
      )) as skipped
    from letter group by topic, subscriber
  )
  select ${jsonOf(chosenFields, {
    span: `json_build_object('since', ${exactInstantSql('span.since')}, 'until', ${exactInstantSql('span.until')})`,
    subscriptions: `(
      select coalesce(json_agg(${jsonOf(subscriptionFields)} order by topic, subscriber), '[]') from subscription
    )`,
    ...more,
  })} as found
  from clock, span`;

/** Makes the preview of what was found: its request takes nothing that dies after the preview. */
export function previewOf<Of extends Found, Asked extends ReplayRequest & { readonly dryRun?: boolean }>(
  attached: readonly AttachedSubscriber[],
  asked: Asked,
  { span, ...found }: Of,
) {
  const { dryRun: _, reason: __, expectedCount: ___, ...request } = asked;
  const until = asked.until === undefined || msOf(asked.until) > 0 ? span.until : asked.until;
  return {
    ...found,
    request: { ...request, until, expectedCount: found.matched },
    subscriptions: found.subscriptions.map((one) => ({ ...one, attached: isAttached(one, attached) })),
  };
}

/** Says what is so of any plan for what was chosen. @param how what becomes of them. @param empty why none matches. */
export function chosenPlan(
  view: Chosen,
  how: string,
  empty: Part,
): Pick<Plan, 'matched' | 'facts' | 'list' | 'cancel' | 'nothing' | 'isRefused'> {
  const { matched, request, error, firstAt, lastAt, generatedAt: now, subscriptions } = view;
  const { incident, group, q, since, until, deliveryIds } = request;
  // A form's window ends at its preview: another operator came first.
  const log = incident === undefined ? replaysPath() : incidentPath(incident);
  const seen = until !== now && say` See ${linked(log, 'what operators did')}.`;
  return {
    matched,
    facts: [
      error !== null && ['Error', errorPhrase(error)],
      error === null && group !== undefined && ['Only', groupWords(group)],
      q !== undefined && ['Error contains', mono(q)],
      firstAt !== null && lastAt !== null && ['Ended', spanPhrase(firstAt, lastAt, now)],
      ['How', how],
    ],
    list: subscriptionList(subscriptions),
    cancel: pageOfChosen({ ...request, since: since === ALL_TIME ? undefined : since }),
    nothing:
      matched === 0 && say`${deliveryIds ? 'The selected deliveries are not dead letters.' : empty}${seen}`,
    isRefused: matched === 0 && deliveryIds !== undefined,
  };
}

/** The page that shows them: of their incident, of a single one, or the list. */
export function pageOfChosen({
  incident,
  deliveryIds,
  topic,
  subscriber,
  group,
  q,
  since,
}: Chosen['request']): string {
  if (incident !== undefined) return incidentPath(incident);
  return deliveryIds?.length === 1
    ? deadLetterPath(deliveryIds[0]!)
    : deadLettersPath({ topic, subscriber, group, q, since });
}

/** Lists how many deliveries of each subscription there are. */
function subscriptionList(rows: Chosen['subscriptions']): List<Chosen['subscriptions'][number]> {
  return {
    name: 'Deliveries',
    columns: [
      { label: 'Topic', isRowHeader: true, cell: (one) => mono(one.topic) },
      { label: 'Subscriber', cell: (one) => subscriberPhrase(one.subscriber) },
      countColumn('Deliveries', (one) => one.count),
    ],
    rows,
  };
}

/** Warns of ids that match nothing. */
export function unmatchedWarning({ unmatched, matched }: Chosen): Warnings[number] {
  return (
    unmatched.length > 0 &&
    matched > 0 && [
      `${quantity(unmatched.length, 'selected delivery')} ${unmatched.length === 1 ? 'is' : 'are'} not dead-lettered, and left out.`,
      `${unmatched.slice(0, MOST_NAMED).join(', ')}${unmatched.length > MOST_NAMED ? ' and others' : ''}: pending, delivered, or pruned.`,
    ]
  );
}

/** A warning names no more deliveries. */
const MOST_NAMED = 3;
