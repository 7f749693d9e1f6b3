import { does } from '../kit/doc.ts';
import type { Doc } from '../kit/doc.ts';
import { below, link, mono, say, styled, whenAndUntil } from '../kit/document.ts';
import type { List } from '../kit/document.ts';
import { eventPath, timersPath, topicPath } from '../kit/links.ts';
import { shortId } from '../kit/words.ts';
import { timerFilters } from './read.ts';
import type { Timer, TimerList } from './read.ts';

/** Says what will happen, by time, and what cancels it. */
export function timersDoc(view: TimerList): Doc {
  const { items, filters, generatedAt: at, nextCursor } = view;
  const [first] = items;
  const isFiltered = filters.topic !== null || filters.timerKey !== null;
  return {
    title: 'Timers',
    lead: 'Events that happen later, the next one first.',
    section: 'timers',
    at,
    filters: { path: timersPath(), by: timerFilters, values: filters },
    blocks: [
      {
        id: 'list',
        list: timersByTime(items, at),
        acts: ({ eventId }: Timer) => [does('cancel-timer', { eventId }, { of: shortId(eventId) })],
        empty: {
          title: isFiltered ? 'No timers match' : 'No timers are set',
          text: 'An event that a producer emits with a later time is listed here until it happens.',
        },
      },
    ],
    nextCursor,
    next: [first && ['To cancel the next one', `cancel-timer ${first.eventId} --reason <text>`]],
  };
}

function timersByTime(rows: readonly Timer[], now: string): List<Timer> {
  return {
    name: 'Timers',
    caption: 'Timers, the next one first',
    columns: [
      {
        label: 'Due',
        look: 'nowrap',
        cell: ({ dueAt, refusedAt }) =>
          refusedAt === null ? whenAndUntil(dueAt, now) : styled('red', 'set aside: the catalog refuses it'),
      },
      { label: 'Topic', isRowHeader: true, cell: ({ topic }) => link(topicPath(topic), topic) },
      { label: 'Key', look: 'wrap', cell: ({ timerKey }) => timerKey !== null && mono(timerKey) },
      {
        label: 'Event',
        terminal: { isFlexible: true },
        cell: ({ eventId, subject }) => say`${link(eventPath(eventId), eventId)}${below(subject)}`,
      },
    ],
    rows,
  };
}
