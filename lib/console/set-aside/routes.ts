import { answered } from '../../platform/http/operation.ts';
import { routesOf } from '../kit/action.ts';
import { setAsidePath } from '../kit/links.ts';
import { operatorRoute } from '../kit/route.ts';
import { setAsideActions } from './actions.ts';
import { setAsidePage } from './page.ts';
import { readSetAside, setAsideList } from './read.ts';

export const listSetAside = operatorRoute({
  id: 'listSetAside',
  path: setAsidePath(),
  scope: 'event-bus:read',
  summary: 'List what the bus set aside: rows that should not exist, and a clock that was ahead',
  answer: setAsideList,
  csv: [{ path: 'items', words: 'Rows set aside' }],
  examples: {
    all: {
      summary: 'All of them',
      answer: answered({
        generatedAt: '2026-02-21T09:31:00.000Z',
        items: [
          {
            id: '7',
            at: '2026-02-21T09:30:00.000Z',
            kind: 'unfit_marker',
            topic: 'payment.captured',
            eventId: '019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77',
            eventExists: false,
            error: 'null value in column "subscriber" of relation "lanes" violates not-null constraint',
            repaired: null,
          },
        ],
        open: 1,
      }),
    },
  },
  handle: async ({ bus }) => await readSetAside(await bus.database()),
  page: setAsidePage,
});

export const setAsideRoutes = [listSetAside, ...routesOf(setAsideActions)];
