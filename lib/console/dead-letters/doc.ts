import { html } from '../../platform/markup.ts';
import { hiddenField } from '../kit/actions.ts';
import { byReplay, leads, replays } from '../kit/doc.ts';
import type { Act, Block, Doc } from '../kit/doc.ts';
import {
  below,
  errorPhrase,
  inConsole,
  link,
  mono,
  say,
  styled,
  subscriberPhrase,
  when,
  whenAndAgo,
} from '../kit/document.ts';
import type { List, Part, Phrase } from '../kit/document.ts';
import { CHECK_ICON, HALT_ICON } from '../kit/icons.ts';
import { ago, span, until } from '../kit/instants.ts';
import type { PageContext } from '../kit/layout.ts';
import { ALL_TIME, deadLetterPath, deadLettersPath, dismissPath, HOME, replayPath } from '../kit/links.ts';
import { isInstant } from '../kit/replay-request.ts';
import { failureTag, failureText, failureWords } from '../kit/states.ts';
import { count, lastPeriod, quantity } from '../kit/words.ts';
import type { DeadLetterFilters, DeadLetterItem, DeadLetterPage, ErrorGroup } from './fields.ts';
import { deadLetterFilters } from './query.ts';
import { wayOf } from './statements.ts';

/** Says which deliveries were given up: grouped by error, then one by one. */
export function deadLettersDoc(view: DeadLetterPage): Doc {
  const { items, groups, total, totalInAll, filters, generatedAt: at, nextCursor, previousCursor } = view;
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
        ...errorsBlock(groups, at, filters),
        title: 'By error',
        hint: coverage(groups, total),
      },
      {
        id: 'list',
        ...(total > 0 && {
          title: isAll ? 'All dead letters' : `${count(total)} of ${count(totalInAll)} dead letters`,
          hint: 'newest first',
        }),
        list: letterList(items, at),
        acts: (item: DeadLetterItem) => {
          const { deliveryId } = item;
          const of = nameOf(item);
          return [
            leads(deadLetterPath(deliveryId), 'Details', `of ${of}`),
            replays(item, of, { deliveryIds: deliveryId }),
          ];
        },
        bulk: { field: 'deliveryIds', valueOf: ({ deliveryId }: DeadLetterItem) => deliveryId, nameOf },
        empty: totalInAll === 0 ? noDeadLetters(view) : noMatches(view),
      },
    ],
    nextCursor,
    previousCursor,
    next: [first && ['Details', `dead-letters ${first.deliveryId}`]],
  };
}

/** Says what the list is, and what links have narrowed it to. */
function leadOf({ totalInAll, filters, groups, generatedAt: now }: DeadLetterPage): Part {
  const definition = 'A dead letter is a delivery that was given up';
  if (totalInAll === 0) return `${definition}.`;
  const { until: end, group } = filters;
  return say`${quantity(totalInAll, 'dead letter')}. ${definition}: it stays here until someone replays or dismisses it.${
    end !== null &&
    say` Showing those from before ${isInstant(end) ? when(end, now) : `the ${lastPeriod(end)}`}.${without(filters, 'until', 'Show later ones too')}`
  }${group !== null && say` Showing ${errorsIn(group, groups)}.${without(filters, 'group', 'Show all errors')}`}`;
}

function errorsIn(group: string, groups: readonly ErrorGroup[]): Part {
  if (group.includes(',')) return `${count(group.split(',').length)} errors`;
  const message = groups.find((one) => one.group === group)?.message ?? group;
  return say`one error: ${{ html: html`<span class="sig">${message}</span>`, text: message }}`;
}

/** A link to the list without one of its filters. */
function without(filters: DeadLetterFilters, name: 'until' | 'group', words: string): Phrase {
  const { limit: _, ...kept } = filters;
  return inConsole(html` <a href="${deadLettersPath({ ...kept, [name]: null })}">${words}</a>`);
}

function coverage(groups: readonly ErrorGroup[], total: number): string {
  const [errors, covered] = [groups.length, groups.reduce((sum, group) => sum + group.count, 0)];
  if (covered < total) return `the ${count(errors)} largest groups hold ${count(covered)} of ${count(total)}`;
  if (total === 1) return 'only one dead letter';
  return errors === 1 ? `all ${count(total)} have the same error` : `${count(errors)} different errors`;
}

/** Acts on all that match the filters. An id is no filter: what it finds is selected. */
function actsOnAll({ filters, total, groups, generatedAt }: DeadLetterPage): readonly Act[] {
  const { topic, subscriber, group, q, since, until: asked } = filters;
  const isId = ['event', 'delivery'].includes(wayOf({ q: q ?? undefined }));
  const isOfTime = [topic, subscriber, group, q].every((filter) => filter === null);
  if (isId || (isOfTime && since === null && asked === null)) return [];
  // A time alone ends where the list does.
  const end = asked ?? (isOfTime ? generatedAt : null);
  const request = { topic, subscriber, group, q, since: since ?? ALL_TIME, until: end };
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

function noDeadLetters({ failing, nextRetryAt, generatedAt }: DeadLetterPage) {
  const next = nextRetryAt === null ? '' : ` The next retry is ${until(nextRetryAt, generatedAt)}.`;
  const are = `${quantity(failing, 'delivery')} ${failing === 1 ? 'is' : 'are'} failing now.${next}`;
  return {
    icon: CHECK_ICON,
    title: 'No dead letters',
    text: `Every delivery has succeeded or is still being retried. ${failing === 0 ? 'Nothing is failing.' : are}`,
    act: failing > 0 && leads(`${HOME}?sort=failing`, 'See failing deliveries', ''),
  };
}

function noMatches({ totalInAll }: DeadLetterPage) {
  return {
    title: 'No dead letters match these filters',
    text: `${quantity(totalInAll, 'dead letter')} without filters.`,
    act: leads(deadLettersPath(), 'Clear filters', ''),
  };
}

type Period = Pick<DeadLetterFilters, 'since' | 'until'>;

/** Dead letters by error, with the replay of each group, and of those that are checked. @param period null: all. */
export function errorsBlock(groups: readonly ErrorGroup[], now: string, period: Period | null): Block {
  const { since = null, until: end = null } = period ?? {};
  return {
    id: 'groups',
    list: errorList(groups, now),
    acts(error: ErrorGroup) {
      const { topic, subscriber, group } = error;
      const filters = { topic, subscriber, group, since, until: end };
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
      hidden: html`${hiddenField('since', since ?? ALL_TIME)} ${end !== null && hiddenField('until', end)}`,
      isReplayable: (context) => groups.some((error) => mayBeReplayed(error, context)),
    },
  };
}

/** Whether a replay would take dead letters of a subscription. */
function mayBeReplayed(
  { topic, subscriber }: Pick<ErrorGroup, 'topic' | 'subscriber'>,
  { refusesReplay, handling }: PageContext,
): boolean {
  return handling(topic, subscriber) !== 'not_in_catalog' && !refusesReplay(topic, subscriber);
}

/** The errors of dead letters: there are seldom more than a few, and each group can be replayed as a whole. */
function errorList(groups: readonly ErrorGroup[], now: string): List<ErrorGroup> {
  return {
    name: 'Errors',
    caption: 'Dead letters grouped by error, the largest group first',
    columns: [
      {
        label: 'Count',
        tone: 'num',
        look: 'c',
        terminal: { title: 'dead' },
        cell: (error) => styled('red', count(error.count)),
      },
      { label: 'Error', look: 'message', terminal: { isFlexible: true }, cell: groupPhrase },
      {
        label: 'Topic and subscriber',
        only: 'console',
        cell: ({ topic, subscriber }) =>
          say`${mono(topic)}${below(say`to ${subscriberPhrase(subscriber, topic)}`)}`,
      },
      { label: 'Topic', only: 'terminal', terminal: { isCut: true }, cell: ({ topic }) => topic },
      { label: 'Subscriber', only: 'terminal', cell: ({ subscriber }) => subscriber },
      {
        label: 'Dead-lettered',
        look: 'nowrap',
        terminal: { title: 'latest', leftOut: 'late' },
        cell: ({ firstAt, lastAt, isStillFailing }) => ({
          html: [
            span(firstAt, lastAt, now),
            below(isStillFailing ? STILL_FAILING : `latest ${ago(lastAt, now)}`).html,
          ],
          text: ago(lastAt, now),
        }),
      },
      {
        only: 'terminal',
        terminal: { leftOut: 'early' },
        cell: ({ isStillFailing }) => isStillFailing && STILL_FAILING,
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

const STILL_FAILING: Phrase = {
  html: html`<span class="dead-t">still failing</span>`,
  text: 'still failing',
  style: 'yellow',
};

function letterList(letters: readonly DeadLetterItem[], now: string): List<DeadLetterItem> {
  return {
    name: 'Dead letters',
    caption: 'Dead letters, newest first',
    columns: [
      {
        label: 'Delivery',
        only: 'terminal',
        terminal: { isBelow: true },
        cell: ({ deliveryId }) => deliveryId,
      },
      {
        label: 'Event',
        look: 'about',
        terminal: { title: 'topic', isCut: true },
        cell: ({ deliveryId, topic, subject, isHalting }) =>
          say`${link(deadLetterPath(deliveryId), topic, 't')}${inConsole([below(subject).html, isHalting && HALTS])}`,
      },
      { label: 'Subscriber', cell: ({ subscriber, topic }) => subscriberPhrase(subscriber, topic) },
      {
        label: 'About',
        only: 'terminal',
        terminal: { isFlexible: true, leftOut: 'early' },
        cell: ({ subject }) => subject,
      },
      {
        label: 'Last error',
        look: 'message',
        terminal: { title: 'error', isFlexible: true },
        cell: ({ lastError, isHalting }) => {
          const { html: drawn, text } = errorPhrase(lastError);
          return { html: drawn, text: `${isHalting ? 'halts its lane; ' : ''}${text}` };
        },
      },
      {
        label: 'Failures',
        tone: 'num',
        only: 'console',
        cell: ({ failures, replays: times }) =>
          say`${failures}${times > 0 && below(`replayed ${times === 1 ? 'once' : `${times} times`}`)}`,
      },
      {
        label: 'Dead-lettered',
        look: 'nowrap',
        terminal: { title: 'dead since', leftOut: 'late' },
        cell: ({ deadLetteredAt }) => whenAndAgo(deadLetteredAt, now),
      },
    ],
    rows: letters,
  };
}

const HALTS = html` <span class="tag halted" title="Its lane waits until it is replayed or dismissed."
  >${HALT_ICON}halts its lane</span
>`;
