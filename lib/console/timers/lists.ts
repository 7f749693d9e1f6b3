import { below, link, mono, say, styled, whenAndUntil } from '../kit/document.ts';
import type { List } from '../kit/document.ts';
import { eventPath, topicPath } from '../kit/links.ts';
import type { Timer, TimerList } from './read.ts';

/** What will happen, by time. */
export function timersByTime({ items, generatedAt: now }: TimerList): List<Timer> {
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
    rows: items,
  };
}
