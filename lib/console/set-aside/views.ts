import { answered } from '../../platform/http/operation.ts';
import { setAsidePath } from '../kit/links.ts';
import { view } from '../kit/view.ts';
import { setAsideDoc } from './doc.ts';
import { readSetAside, setAsideList } from './read.ts';

const listSetAside = view({
  id: 'listSetAside',
  path: setAsidePath(),
  summary: 'List what the bus set aside: rows that should not exist, and a clock that was ahead',
  answer: setAsideList,
  examples: {
    all: {
      summary: 'All of them',
      answer: answered(),
    },
  },
  handle: async ({ bus }) => await readSetAside(await bus.database()),
  says: setAsideDoc,
  command: {
    name: 'set-aside',
    summary: 'show what the bus set aside: rows that should not exist, and a clock that was ahead',
    notes: ['What is set aside stops nothing else. Repair it with repair <id>.'],
    examples: [['set-aside', 'what is to be repaired, then what was']],
  },
});

export const setAsideViews = [listSetAside];
