import * as z from 'zod';

import { NotRepairable, repair } from '../../bus/deliveries/operations/repair.ts';
import { answered, refused } from '../../platform/http/operation.ts';
import { Problem } from '../../platform/http/problem.ts';
import { actionRoute } from '../kit/action-route.ts';
import { setAsidePath } from '../kit/links.ts';
import { operatorRoute } from '../kit/route.ts';
import * as shape from '../kit/shapes.ts';
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

const UNKNOWN =
  'Nothing that was set aside and no event has this id. The list has the ids: /platform/event-bus/set-aside.';

const repaired = z
  .object({
    outcome: z.enum(['in_its_place', 'late', 'due', 'dismissed']).meta({
      description:
        '`in_its_place`: the event waits for fan-out again. `late`: the same, but newer events of its topic are fanned out already, so it comes as if recorded now. `due`: the timer is released when the relay next looks. `dismissed`: nothing is delivered.',
    }),
    topic: shape.topic.nullable(),
    eventId: z.uuid().nullable(),
  })
  .meta({ id: 'Repaired', description: 'What became of what was repaired.' });

export const repairRow = actionRoute('repair', {
  id: 'repair',
  summary: 'Repair what was set aside, or an event that was never fanned out',
  description:
    'An event that exists waits for fan-out again. A row without an event is dismissed and stays on record.',
  parameters: {
    id: z
      .union([z.uuid(), z.string().regex(/^\d{1,18}$/)])
      .meta({ description: 'The id of a row that was set aside, or of an event.' }),
  },
  body: z.object({ reason: shape.requiredReason }).meta(shape.needsReason),
  answer: repaired,
  problems: ['not_broken'],
  unknown: UNKNOWN,
  examples: {
    nobody: {
      summary: 'An unknown id',
      parameters: { id: '999999999999999999' },
      json: { reason: 'Written by hand.' },
      answer: refused('not_found', { detail: UNKNOWN }),
    },
  },
  handle: async ({ parameters: { id }, body: { reason }, operator, bus }) => {
    try {
      const { outcome, topic, eventId } = await repair(await bus.database(), {
        id,
        by: operator.subject,
        reason,
      });
      return { outcome, topic: topic || null, eventId };
    } catch (error) {
      if (!(error instanceof NotRepairable)) throw error;
      if (error.code === 'not_found') return null;
      throw new Problem('not_broken', { cause: error });
    }
  },
  actedOn: (_done, { parameters }) => parameters,
  home: () => setAsidePath(),
});

export const setAsideRoutes = [listSetAside, repairRow];
