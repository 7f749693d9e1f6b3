import { html } from '../../platform/markup.ts';
import { hiddenField } from '../kit/actions.ts';
import { byReplay, leads, replays } from '../kit/doc.ts';
import type { Act, Block, Doc } from '../kit/doc.ts';
import {
  below,
  errorPhrase,
  link,
  mono,
  say,
  styled,
  subscriberPhrase,
  whenAndAgo,
} from '../kit/document.ts';
import type { List, Part, Phrase } from '../kit/document.ts';
import { HALT_ICON } from '../kit/sections.ts';
import { count, groupWords, quantity } from '../kit/words.ts';
import type { PageContext } from '../kit/layout.ts';
import {
  ALL_TIME,
  deadLetterPath,
  deadLettersPath,
  dismissPath,
  eventsPath,
  replayPath,
} from '../kit/links.ts';
import { failureTag, failureText, failureWords } from '../kit/states.ts';
import { deadLetterFilters } from './fields.ts';
import type { DeadLetterItem, DeadLetterPage, ErrorGroup } from './fields.ts';

/** Says which deliveries were given up: grouped by error, then one by one. */
export function deadLettersDoc(view: DeadLetterPage): Doc {
  const { items, groups, total, totalInAll, filters, generatedAt: at, nextCursor } = view;
  const [first] = items;
  const isAll = total === totalInAll;
  return {
    title: 'Dead letters',
    lead: leadOf(view),
    section: 'dead-letters',
    at,
    ...(totalInAll > 0 && { filters: { path: deadLettersPath(), by: deadLetterFilters, values: filters } }),
    acts: items.length > 0 ? actsOnAll(view) : [],
    blocks: [
      total > 0 && {
        ...errorsBlock(groups, at, filters.since),
        title: 'By error',
        hint: quantity(groups.length, 'error'),
      },
      {
        id: 'list',
        ...(total > 0 && {
          title: isAll ? 'All dead letters' : `${count(total)} of ${count(totalInAll)} dead letters`,
          hint: 'newest first',
        }),
        ...lettersBlock(items, at),
        empty: totalInAll === 0 ? NONE : noMatches(view),
      },
    ],
    nextCursor,
    next: [first && ['Details', `dead-letters ${first.deliveryId}`]],
  };
}

/** Dead letters one by one, with the replay of each, and of those that are checked. */
function lettersBlock(items: readonly DeadLetterItem[], now: string) {
  return {
    list: letterList(items, now),
    acts: (item: DeadLetterItem) => {
      const { deliveryId } = item;
      const of = nameOf(item);
      return [
        leads(deadLetterPath(deliveryId), 'Details', `of ${of}`),
        replays(item, of, { deliveryIds: deliveryId }),
      ];
    },
    bulk: {
      field: 'deliveryIds',
      valueOf: ({ deliveryId }: DeadLetterItem) => deliveryId,
      nameOf,
    } as const,
  };
}

/** Says what the list is, and what links have narrowed it to. */
function leadOf({ totalInAll, filters: { group } }: DeadLetterPage): Part {
  if (totalInAll === 0) return 'A dead letter is a delivery that was given up.';
  return say`${quantity(totalInAll, 'dead letter')}. A dead letter is a delivery that was given up: it stays here until someone replays or dismisses it.${group !== undefined && ` Showing ${groupWords(group)}.`}`;
}

/** Acts on all that match the filters. */
function actsOnAll({ filters, total, groups, generatedAt }: DeadLetterPage): readonly Act[] {
  const { topic, subscriber, group, q, since = ALL_TIME } = filters;
  const isOfTime = [topic, subscriber, group, q].every((filter) => !filter);
  if (isOfTime && filters.since === undefined) return [];
  // A time alone ends where the list does.
  const request = { topic, subscriber, group, q, since, ...(isOfTime && { until: generatedAt }) };
  return [
    byReplay(
      () =>
        html`<a class="btn sm" href="${dismissPath(request)}">Dismiss all ${count(total)} that match…</a>`,
    ),
    byReplay(
      (context) =>
        groups.some((one) => mayBeReplayed(one, context)) &&
        html`<a class="btn sm" href="${replayPath(request)}">Replay all ${count(total)} that match…</a>`,
    ),
  ];
}

function nameOf({ topic, subject, subscriber, deliveryId }: DeadLetterItem): string {
  return `${topic} ${subject ?? ''}, ${subscriber}, delivery ${deliveryId}`;
}

const NONE = {
  title: 'No dead letters',
  text: 'Every delivery has succeeded, was dismissed or is still being retried.',
  act: leads(eventsPath({ state: 'failing' }), 'See failing events', ''),
};

function noMatches({ totalInAll }: DeadLetterPage) {
  return {
    title: 'No dead letters match these filters',
    text: `${quantity(totalInAll, 'dead letter')} without filters.`,
    act: leads(deadLettersPath(), 'Clear filters', ''),
  };
}

/** Dead letters by error, with the replay of each group, and of those that are checked. */
export function errorsBlock(groups: readonly ErrorGroup[], now: string, since?: string): Block {
  return {
    id: 'groups',
    list: errorList(groups, now),
    acts(error: ErrorGroup) {
      const { topic, subscriber, group } = error;
      const filters = { topic, subscriber, group, since };
      const message = failureWords(error);
      return [
        leads(deadLettersPath(filters), 'Show', message),
        replays(error, message, { ...filters, since: since ?? ALL_TIME }),
      ];
    },
    bulk: groups.length > 1 && {
      field: 'group',
      valueOf: ({ group }: ErrorGroup) => group,
      nameOf: (error: ErrorGroup) => `${failureWords(error)}, ${error.topic} to ${error.subscriber}`,
      one: 'error',
      hidden: hiddenField('since', since ?? ALL_TIME),
      isReplayable: (context) => groups.some((error) => mayBeReplayed(error, context)),
    },
  };
}

/** Whether a replay would take dead letters of a subscription. */
function mayBeReplayed(
  { topic, subscriber }: Pick<ErrorGroup, 'topic' | 'subscriber'>,
  { handling }: PageContext,
): boolean {
  const how = handling(topic, subscriber);
  return how !== 'not_in_catalog' && (how === 'unattached' || !how.refusesReplays);
}

/** The errors of dead letters: there are seldom more than a few, and each group can be replayed as a whole. */
function errorList(groups: readonly ErrorGroup[], now: string): List<ErrorGroup> {
  return {
    name: 'Errors',
    columns: [
      {
        label: 'Count',
        tone: 'num',
        look: 'c',
        cell: (error) => styled('red', count(error.count)),
      },
      { label: 'Error', look: 'message', cell: groupPhrase },
      {
        label: 'Topic and subscriber',
        cell: ({ topic, subscriber }) => say`${mono(topic)}${below(say`to ${subscriberPhrase(subscriber)}`)}`,
      },
      {
        label: 'Dead-lettered',
        look: 'nowrap',
        cell: ({ lastAt }) => whenAndAgo(lastAt, now),
      },
    ],
    rows: groups,
  };
}

function groupPhrase({ kind, message }: ErrorGroup): Phrase {
  const error = { kind, message };
  return {
    html: html`<span class="sig">${failureWords(error)}</span><span class="s">${failureTag(kind)}</span>`,
    text: failureText(error),
  };
}

function letterList(letters: readonly DeadLetterItem[], now: string): List<DeadLetterItem> {
  return {
    name: 'Dead letters',
    columns: [
      {
        label: 'Event',
        look: 'about',
        cell: ({ deliveryId, topic, subject, isHalting }) =>
          say`${link(deadLetterPath(deliveryId), topic, 't')}${below(subject, ', ')}${isHalting && HALTS}`,
      },
      { label: 'Subscriber', cell: ({ subscriber }) => subscriberPhrase(subscriber) },
      {
        label: 'Last error',
        look: 'message',
        cell: ({ lastError, replays: times }) =>
          say`${errorPhrase(lastError)}${times > 0 && below(`replayed ${quantity(times, 'time')}`, ', ')}`,
      },
      {
        label: 'Dead-lettered',
        look: 'nowrap',
        cell: ({ deadLetteredAt }) => whenAndAgo(deadLetteredAt, now),
      },
    ],
    rows: letters,
    idOf: ({ deliveryId }) => deliveryId,
  };
}

const HALTS: Phrase = {
  html: html` <span class="tag halted" title="Its lane waits until it is replayed or dismissed."
    >${HALT_ICON}halts its lane</span
  >`,
  text: ', halts its lane',
};
