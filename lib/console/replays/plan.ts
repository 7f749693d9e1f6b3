import { v7 as uuidv7 } from 'uuid';

import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { SECOND } from '../../platform/time.ts';
import { countColumn, errorPhrase, mono, say, spanPhrase, subscriberPhrase } from '../kit/document.ts';
import type { List, Phrase } from '../kit/document.ts';
import { earlierPhrase } from '../kit/earlier-words.ts';
import { ago, duration } from '../kit/instants.ts';
import { ALL_TIME, deadLettersPath, incidentPath } from '../kit/links.ts';
import type { Plan } from '../kit/plan.ts';
import { count, groupWords, quantity } from '../kit/words.ts';
import type { PreviewedSubscription, ReplayPreview } from './preview.ts';
import { leftOutWarnings, nothingWords, subscriptionNote, warningsOf } from './words.ts';

/** A preview; that of a dry run has no id. */
type Previewed = Omit<ReplayPreview, 'replayId'> & { readonly replayId: string | null };

/** What is replayed, as a noun. */
export function nounOf({ include }: Plan['request']): string {
  return include === 'all' ? 'delivery' : 'dead letter';
}

/** Says what a replay would do. */
export function replayPlan(view: Previewed): Plan {
  const { matched, topic, error, endedFrom, endedTo, createdFrom, createdTo, generatedAt: now } = view;
  const { estimatedSeconds, subscriptions, earlier, leftOut } = view;
  // Its field has the pace.
  const { perMinute, ...request } = view.request;
  const { group, q } = request;
  const [first, ...others] = subscriptions;
  const onlyTopic = topic ?? (others.length === 0 ? first?.topic : undefined);
  const time = estimatedSeconds === null ? '' : `, about ${duration(estimatedSeconds * SECOND)}`;
  const pace = perMinute === undefined ? undefined : `${count(perMinute)} a minute${time}`;
  return {
    what: quantity(matched, nounOf(request)),
    matched,
    lead: 'Nothing has been sent yet. This is what the replay would do.',
    warnings: warningsOf(view),
    list: others.length > 0 && listOf(subscriptions, now),
    facts: [
      onlyTopic !== undefined && ['Topic', mono(onlyTopic)],
      error !== null && ['Error', errorPhrase(error)],
      error === null && group !== undefined && ['Only', groupWords(group)],
      q !== undefined && ['Error contains', mono(q)],
      first !== undefined && others.length === 0 && ['Goes to', destination(first)],
      createdFrom !== null && createdTo !== null && ['Recorded', spanPhrase(createdFrom, createdTo, now)],
      endedFrom !== null && endedTo !== null && [endedWord(view), spanPhrase(endedFrom, endedTo, now)],
      ['Pace', pace],
      ['How', 'Oldest first, same event ids, attempt numbers start again at 1'],
    ],
    request: { ...request, replayId: view.replayId ?? uuidv7(), expectedCount: matched },
    ...(pace !== undefined && { pace }),
    fields: () => matched > 1 && paceField(matched, perMinute),
    cancel: cancelPath(view),
    nothing: matched === 0 && {
      title: 'Nothing to replay',
      text: [nothingWords(view), earlier && earlierPhrase(earlier, now)],
      warnings: leftOutWarnings(leftOut),
      action: [deadLettersPath(), 'Dead letters'],
      // The server refuses what is left out, with the reason.
      isBegun: leftOut.length > 0,
    },
  };
}

/** Lists how many deliveries each subscription gets. */
function listOf(rows: readonly PreviewedSubscription[], now: string): List<PreviewedSubscription> {
  return {
    name: 'Goes to',
    columns: [
      countColumn('Deliveries', (one) => one.count),
      { label: 'Topic', isRowHeader: true, terminal: { isCut: true }, cell: (one) => mono(one.topic) },
      {
        label: 'Subscriber',
        cell(one) {
          const note = subscriptionNote(one);
          return say`${subscriberPhrase(one.subscriber, one.topic)}${note !== null && ` (${note})`}`;
        },
      },
      {
        label: 'Last delivered',
        look: 'nowrap',
        terminal: { leftOut: 'late' },
        cell: ({ lastDeliveredAt }) => (lastDeliveredAt === null ? 'never' : ago(lastDeliveredAt, now)),
      },
    ],
    rows,
  };
}

function destination({ subscriber, topic, others }: PreviewedSubscription): Phrase {
  const to = subscriberPhrase(subscriber, topic);
  if (others === 0) return say`${to}, the only subscriber of ${mono(topic)}.`;
  const rest = others === 1 ? 'The other subscriber gets' : `The ${others} other subscribers get`;
  return say`${to} only. ${rest} nothing.`;
}

/** The pace that the page suggests, in deliveries a minute: slow enough for any subscriber that delivers at all. */
const SUGGESTED_PACE = 1000;

function paceField(matched: number, perMinute: number | undefined): Html {
  const takes = duration(Math.ceil((matched / SUGGESTED_PACE) * 60) * SECOND);
  return html`<label class="f">
    Deliveries a minute
    <span class="hint">Empty: all at once. ${count(SUGGESTED_PACE)} a minute take about ${takes}</span>
    <input
      name="perMinute"
      inputmode="numeric"
      autocomplete="off"
      pattern="[0-9]{1,7}"
      title="A whole number, 1 to 1000000, or nothing"
      value="${perMinute ?? ''}"
    />
  </label>`;
}

function endedWord({ isAll, matched, dismissed }: Previewed): string {
  if (isAll) return 'Ended';
  if (dismissed === 0) return 'Dead-lettered';
  return dismissed === matched ? 'Dismissed' : 'Dead-lettered or dismissed';
}

function cancelPath({ topic, subscriptions, request }: Previewed): string {
  const { incident, group, q, since } = request;
  if (incident !== undefined) return incidentPath(incident);
  const subscriber = request.subscriber ?? (subscriptions.length === 1 ? subscriptions[0]?.subscriber : null);
  return deadLettersPath({ topic, subscriber, group, q, since: since === ALL_TIME ? null : since });
}
