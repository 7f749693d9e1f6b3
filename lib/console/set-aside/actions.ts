import * as z from 'zod';

import { repair } from '../../bus/deliveries/operations/repair.ts';
import { NotActedOn } from '../../bus/deliveries/refusals.ts';
import { refused } from '../../platform/http/operation.ts';
import { action } from '../kit/action.ts';
import { setAsidePath } from '../kit/links.ts';
import { problemOf } from '../kit/problem-of.ts';
import * as shape from '../kit/shapes.ts';
import { followRepair } from './follow.ts';
import { OUTCOMES } from './words.ts';

const UNKNOWN =
  'Nothing that was set aside and no event has this id. The list has the ids: /platform/event-bus/set-aside.';

const repaired = z
  .object({
    outcome: z.enum(['in_its_place', 'late', 'due', 'dismissed']).meta({
      description:
        '`in_its_place`: the event awaits its place again. `late`: the same, but newer events of its topic have theirs already, so it comes as if recorded now. `due`: the timer is released when the relay next looks. `dismissed`: nothing is delivered.',
    }),
    topic: shape.topic.nullable(),
    eventId: z.uuid().nullable(),
  })
  .meta({ id: 'Repaired', description: 'What became of what was repaired.' });

const repairAction = action({
  name: 'repair',
  id: 'repair',
  path: `${setAsidePath()}/{id}/repair`,
  summary: 'Repair what was set aside, or an event that never got its place',
  description:
    'An event that exists awaits its place again. A row without an event is dismissed and stays on record.',
  parameters: {
    id: z
      .union([z.uuid(), z.string().regex(/^\d{1,18}$/)], 'expected the id of a row or of an event')
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
      if (error instanceof NotActedOn && error.code === 'not_found') return null;
      throw problemOf(error);
    }
  },
  home: () => setAsidePath(),
  button: 'Repair…',
  asks: {
    text: 'An event that exists is delivered. A row without an event is dismissed, and stays on record.',
    example: 'written by hand, case 4411',
    submit: 'Repair',
  },
  follow: followRepair,
  command: {
    summary: 'repair what the bus set aside, or an event that never got its place',
    usage: ['repair <id> --reason <text>', 'repair <eventId> --reason <text>'],
    notes: [
      'An event that exists is delivered: in its place, or, where newer ones of its topic have theirs already, behind them. A row without an event is dismissed, and stays on record.',
      'With an event id: one that the doctor names, which neither has a place nor awaits one.',
    ],
    examples: [
      ['repair 7 --reason "written by hand, case 4411"', 'what set-aside lists under 7'],
      ['repair 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77 --reason "its marker was deleted"', 'an event'],
    ],
    missing: ['The id is missing.', 'npx postbud set-aside lists them.'],
    done: ({ outcome }, id) => `Repaired ${id}. ${OUTCOMES[outcome]}`,
  },
});

export const setAsideActions = [repairAction];
