import { link } from '../kit/document.ts';
import type { List } from '../kit/document.ts';
import { topicPath } from '../kit/links.ts';
import type { Warnings } from '../kit/operation-pages.ts';
import { count, joinNames, quantity } from '../kit/words.ts';
import type { ErasurePreview } from './plan.ts';
import type { ErasureProgress, ErasureRecord } from './read.ts';

// What a preview and an erasure say, for the pages and for the command line.

/** Says how far an erasure is, without a full stop. */
export function stateWords({ state, found, events, searched, about }: ErasureProgress): string {
  const read = `${count(searched)} of about ${count(about)} events read`;
  switch (state) {
    case 'waiting':
      return 'Waiting for producers whose transactions were open when it was requested';
    case 'gathering':
      return `Looking for the person’s other names: ${read}`;
    case 'finding':
      return `Searching: ${quantity(found, 'event')} found, ${read}`;
    case 'erasing':
      return `Erasing: ${count(events)} of ${quantity(found, 'event')} overwritten`;
    case 'settling':
      return `${quantity(events, 'event')} overwritten, waiting for relays to end the attempts that they had begun`;
    case 'checking':
      return `${quantity(events, 'event')} overwritten, checking what relays wrote meanwhile`;
    case 'ended':
      return 'Ended';
  }
}

/** Says what was overwritten. */
export function outcomeWords({ found, events, deliveries, notifications, texts }: ErasureRecord): string {
  if (found + notifications + texts === 0) return 'Nothing names this person.';
  const parts = [
    events > 0 && quantity(events, 'payload'),
    deliveries > 0 && `the attempts of ${quantity(deliveries, 'delivery')}`,
    notifications > 0 && `${quantity(notifications, 'address', 'addresses')} of notifications`,
    texts > 0 && `${quantity(texts, 'text')} of error groups, incidents and the like`,
  ].filter((part) => part !== false);
  const named = `${quantity(found, 'event')} named the person.`;
  return parts.length === 0
    ? `${named} None of it was left to erase.`
    : `Erased: ${joinNames(parts)}. ${named}`;
}

/** What an erasure leaves, which an operator should know. */
export function leftWords({ keysKept }: ErasureRecord): readonly string[] {
  return [
    'Events created after the request are not erased: ask again once the person’s last one has been recorded.',
    ...(keysKept > 0
      ? [
          `${quantity(keysKept, 'event')} ${keysKept === 1 ? 'keeps an ordering key that holds' : 'keep ordering keys that hold'} the person, because unfinished deliveries depend on it. Erase again once they are settled.`,
        ]
      : []),
  ];
}

/** The events that name the person, by topic. */
export function topicList(rows: ErasurePreview['topics']): List<ErasurePreview['topics'][number]> {
  return {
    name: 'Events by topic',
    caption: 'Events that name the person, by topic',
    columns: [
      { label: 'Topic', cell: ({ topic }) => link(topicPath(topic), topic) },
      { label: 'Events', tone: 'num', cell: ({ events }) => count(events) },
    ],
    rows,
  };
}

/** What to consider before an erasure, the most important first. */
export function warningsOf(view: ErasurePreview): Warnings {
  const { names, timers, pending, isComplete, searched, notSearched } = view;
  const named = (origin: string) => names.filter((name) => name.origin === origin).map(({ name }) => name);
  const waiting = pending.reduce((sum, one) => sum + one.count, 0);
  const [linked, shared, beside] = [named('linked'), named('shared'), named('beside')];
  const to = [...new Set(pending.map(({ subscriber }) => subscriber))];
  return [
    waiting > 0 && [
      `${quantity(waiting, 'delivery')} of these events ${waiting === 1 ? 'is' : 'are'} not finished.`,
      `${joinNames(to)} would be handed erased payloads. To have them handled first, let them be delivered, or replay them.`,
    ],
    timers > 0 && [
      `${quantity(timers, 'event')} of these ${timers === 1 ? 'has' : 'have'} not happened yet.`,
      'Erased timers stay set, and are released with what is left of their payloads. To prevent that, cancel them.',
    ],
    linked.length > 0 && [
      `These events also name the person by ${joinNames(linked)}.`,
      `Events that name only ${linked.length === 1 ? 'this' : 'these'} are erased too, unless you look for exactly the given names.`,
    ],
    shared.length > 0 && [
      `${joinNames(shared)} also ${shared.length === 1 ? 'names' : 'name'} someone else.`,
      `Events that name only ${shared.length === 1 ? 'this' : 'these'} stay. If it is the person’s, ask for it too.`,
    ],
    beside.length > 0 && [
      `These events also have the ${beside.length === 1 ? 'id' : 'ids'} ${joinNames(beside)}.`,
      'Ids are not followed. If it is the person’s, ask for it too.',
    ],
    !isComplete && [
      `There are more events than this preview could read: ${count(searched)} so far.`,
      'The erasure reads all of them, and may find more.',
    ],
    [
      `${quantity(notSearched.length, 'topic')} with personal data ${notSearched.length === 1 ? 'names' : 'name'} nobody and can’t be searched.`,
      'Find such events by another id, such as a booking’s, and erase them by their event ids.',
    ],
  ];
}
