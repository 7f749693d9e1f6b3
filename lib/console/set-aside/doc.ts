import { does } from '../kit/doc.ts';
import type { Doc } from '../kit/doc.ts';
import { below, link, mono, say, whenAndAgo } from '../kit/document.ts';
import type { List, Part } from '../kit/document.ts';
import { CHECK_ICON } from '../kit/icons.ts';
import { eventPath, incidentsPath, topicPath } from '../kit/links.ts';
import { operatorText } from '../kit/operator-names.ts';
import type { OperatorNames } from '../kit/operator-names.ts';
import { count, shortId } from '../kit/words.ts';
import type { SetAside, SetAsideList } from './read.ts';
import { repairWords, whatWords } from './words.ts';

/** Says what the bus set aside: what nobody has repaired, then what was. */
export function setAsideDoc({ items, open, generatedAt: at }: SetAsideList, names: OperatorNames): Doc {
  const [first] = items;
  const isMore = open > items.length;
  const more = ` The newest ${count(items.length)} are listed: the others follow as these are repaired.`;
  return {
    title: 'Set aside',
    lead: `${count(open)} to repair.${isMore ? more : ''} Rows that should not exist stop nothing but themselves.`,
    section: 'incidents',
    at,
    back: [incidentsPath(), 'Incidents'],
    blocks: [
      {
        id: 'list',
        list: setAsideRows(items, at, names),
        acts: (row: SetAside) => [
          row.repaired === null && does('repair', { id: row.id }, { of: row.id, text: repairWords(row) }),
        ],
        empty: { icon: CHECK_ICON, title: 'Nothing is set aside', text: 'Every row is as it should be.' },
      },
    ],
    next: [open > 0 && first && [`To repair ${first.id}`, `repair ${first.id} --reason <text>`]],
  };
}

function setAsideRows(rows: readonly SetAside[], now: string, names: OperatorNames): List<SetAside> {
  return {
    name: 'Set aside',
    caption: 'What was set aside: what nobody has repaired, then what was; each newest first',
    columns: [
      { label: 'Id', cell: ({ id }) => id },
      {
        label: 'What',
        isRowHeader: true,
        look: 'wrap',
        terminal: { isFlexible: true },
        cell: (row) => say`${whatWords(row)}${below(row.topic && link(topicPath(row.topic), row.topic))}`,
      },
      { label: 'Error', look: 'wrap', terminal: { isFlexible: true }, cell: ({ error }) => error },
      { label: 'Event', cell: eventPart },
      { label: 'Set aside', look: 'nowrap', cell: ({ at }) => whenAndAgo(at, now) },
      rows.some(({ repaired }) => repaired !== null) && {
        label: 'Repaired',
        look: 'wrap',
        terminal: { isFlexible: true },
        cell: ({ repaired }) =>
          repaired &&
          say`${whenAndAgo(repaired.at, now)} by ${operatorText(repaired.by, names)}: ${repaired.reason}`,
      },
    ],
    rows,
  };
}

function eventPart({ eventId, eventExists }: SetAside): Part {
  if (eventId === null) return null;
  if (!eventExists) return say`${mono(shortId(eventId))}${below('does not exist')}`;
  return { ...link(eventPath(eventId), shortId(eventId)), text: eventId };
}
