import * as z from 'zod';

import { repair } from '../../bus/deliveries/operations/repair.ts';
import type { RepairOutcome } from '../../bus/deliveries/operations/repair.ts';
import { action } from '../kit/action.ts';
import { does } from '../kit/doc.ts';
import type { Block } from '../kit/doc.ts';
import { below, link, mono, say, whenAndAgo } from '../kit/document.ts';
import type { Part } from '../kit/document.ts';
import { field, instant, jsonOf, shapesOf, text, textOrNull } from '../kit/fields.ts';
import { eventPath, HOME, incidentsPath } from '../kit/links.ts';
import * as shape from '../kit/shapes.ts';
import { shortId } from '../kit/words.ts';

/** Of a row of `set_aside`. What the row holds is not shown: it may be of anybody. */
const setAsideFields = {
  id: text('set_aside.id::text', 'What `repair` takes.'),
  at: instant('set_aside.at'),
  kind: text(
    'set_aside.kind',
    '`unfit_marker`: an event that cannot get its place. `unfit_timer`: a timer whose payload the catalog refuses. `clock_was_ahead`: times in the future, which were taken back. Later releases may add kinds.',
  ),
  eventId: field(z.uuid().nullable(), 'set_aside.event_id'),
  eventExists: field(
    z.boolean().describe('Whether there is an event with this id.'),
    'exists (select from events where events.id = set_aside.event_id)',
  ),
  error: textOrNull(
    "left(set_aside.found ->> 'error', 500)",
    'What the database says is wrong with the row.',
  ),
};

export const setAsideRow = z
  .object(shapesOf(setAsideFields))
  .meta({ id: 'SetAside', description: 'A row that should not exist, or a clock that was ahead.' });
type SetAside = z.output<typeof setAsideRow>;

/** More than these are seldom of another kind. */
export const LISTED_ASIDE = 100;

/** The rows that an incident of the bus itself is about, newest first, in SQL. */
export const SET_ASIDE = `(
    select coalesce(json_agg(${jsonOf(setAsideFields)} order by set_aside.id desc), '[]') from (
      select set_aside.* from incident join set_aside on repaired_at is null and set_aside.topic = incident.topic
        and incident.kind = case set_aside.kind when 'clock_was_ahead' then set_aside.kind else 'strange_row' end
      where incident.subscriber = '' order by set_aside.id desc limit ${LISTED_ASIDE}
    ) as set_aside
  )`;

/** Says what the bus set aside and nobody has repaired. @param all how many, of which the newest are listed. */
export function setAsideBlock(rows: readonly SetAside[], all: number, at: string): Block {
  return {
    id: 'set-aside',
    title: 'To repair',
    hint:
      all > rows.length
        ? `the newest ${rows.length}; the others follow as these are repaired`
        : 'newest first',
    list: {
      name: 'Set aside',
      columns: [
        { label: 'Id', cell: ({ id }: SetAside) => id },
        { label: 'What', isRowHeader: true, look: 'wrap', cell: whatWords },
        { label: 'Error', look: 'wrap', cell: ({ error }: SetAside) => error },
        { label: 'Event', cell: eventPart },
        { label: 'Set aside', look: 'nowrap', cell: (row: SetAside) => whenAndAgo(row.at, at) },
      ],
      rows,
    },
    acts: (row: SetAside) => [does('repair', { id: row.id }, { of: row.id, text: repairWords(row) })],
  };
}

function eventPart({ eventId, eventExists }: SetAside): Part {
  if (eventId === null) return null;
  if (!eventExists) return say`${mono(shortId(eventId))}${below('does not exist')}`;
  return { ...link(eventPath(eventId), shortId(eventId)), text: eventId };
}

/** Says what was set aside, and why. */
function whatWords({ kind, eventExists }: SetAside): string {
  if (kind === 'clock_was_ahead') return 'The clock was ahead. The times that it left were taken back.';
  if (kind === 'unfit_timer') return 'A timer that is due, and whose payload this catalog does not accept.';
  return eventExists ? 'An event that cannot get its place.' : 'A row that awaits a place, and has no event.';
}

/** Says what repairing it does. */
function repairWords({ kind, eventExists }: SetAside): string {
  if (kind === 'clock_was_ahead') return 'Closes the incident. Check the time synchronisation first.';
  if (kind === 'unfit_timer')
    return 'Releases it once more: do so after the release whose catalog accepts it. Cancel it under Timers if it must not happen.';
  return eventExists
    ? 'The event is delivered: in its place, or after the newer ones that its subscribers have already.'
    : 'Dismisses the row. Nothing is delivered, and it stays on record.';
}

const UNKNOWN = `Nothing that was set aside and no event has this id. The incident of the bus lists the ids: ${incidentsPath()}.`;

const repaired = z
  .object({
    outcome: z
      .enum(['in_its_place', 'late', 'due', 'dismissed'])
      .describe(
        '`in_its_place`: the event awaits its place again. `late`: the same, but newer events of its topic have theirs already, so it comes as if recorded now. `due`: the timer is released when the relay next looks. `dismissed`: nothing is delivered.',
      ),
    topic: shape.topic.nullable(),
    eventId: z.uuid().nullable(),
  })
  .meta({ id: 'Repaired', description: 'What became of what was repaired.' });

/** Says what became of it. */
const OUTCOMES: Readonly<Record<RepairOutcome, string>> = {
  in_its_place: 'The event awaits its place again.',
  late: 'The event awaits a place again, behind newer ones that have theirs already, as if recorded now.',
  due: 'The timer is released when the relay next looks, or set aside again.',
  dismissed: 'It is dismissed, and stays on record. Nothing is delivered.',
};

/** Repairs what the incidents of the bus itself list, or what the doctor finds. */
export const repairAction = action({
  name: 'repair',
  id: 'repair',
  path: `${HOME}/set-aside/{id}/repair`,
  summary: 'Repair what was set aside, or an event that never got its place',
  description:
    'An event that exists awaits its place again. A row without an event is dismissed and stays on record.',
  parameters: {
    id: z
      .union([z.uuid(), z.string().regex(/^\d{1,18}$/)], 'expected the id of a row or of an event')
      .describe('The id of a row that was set aside, or of an event.'),
  },
  body: z.object({ reason: shape.requiredReason }).meta(shape.needsReason),
  answer: repaired,
  problems: ['not_broken'],
  unknown: UNKNOWN,
  handle: async ({ parameters: { id }, body: { reason }, operator, bus }) => {
    const asked = { id, by: operator.subject, reason };
    const { outcome, topic, eventId } = await repair(await bus.database(), asked);
    return { outcome, topic: topic || null, eventId };
  },
  button: 'Repair…',
  asks: {
    text: 'An event that exists is delivered. A row without an event is dismissed, and stays on record.',
    example: 'written by hand, case 4411',
    submit: 'Repair',
  },
  done: ({ outcome }, { id }) => `Repaired ${id}. ${OUTCOMES[outcome]}`,
  command: {
    summary: 'repair what the bus set aside, or an event that never got its place',
    notes: [
      'npx postbud incidents <id> lists what is set aside, where the incident is one of the bus itself.',
      'An event that exists is delivered: in its place, or, where newer ones of its topic have theirs already, behind them. A row without an event is dismissed, and stays on record.',
      'With an event id: one that the doctor names, which neither has a place nor awaits one.',
    ],
    examples: [
      ['repair 7 --reason "written by hand, case 4411"', 'what its incident lists under 7'],
      ['repair 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77 --reason "its marker was deleted"', 'an event'],
    ],
  },
});
