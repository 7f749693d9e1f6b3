import { v7 as uuidv7 } from 'uuid';
import * as z from 'zod';

import { previewErasure } from '../../components/erasures/erase-preview.ts';
import { maskedName } from '../../components/erasures/erased-names.ts';
import { topicsNamingNobody } from '../../components/erasures/person.ts';
import type { Database } from '../../platform/db/database.ts';
import { isStorable } from '../../platform/storable.ts';
import { instantOf, SECOND } from '../../platform/time.ts';
import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { hiddenField, missingScope } from '../kit/actions.ts';
import { countColumn, link, mono, say } from '../kit/document.ts';
import type { List } from '../kit/document.ts';
import type { PageContext } from '../kit/layout.ts';
import { erasuresPath, replaysPath, topicPath } from '../kit/links.ts';
import type { Plan, Warnings } from '../kit/plan.ts';
import { OPERATED, ownId } from '../kit/replay-request.ts';
import * as shape from '../kit/shapes.ts';
import { count, joinNames, quantity } from '../kit/words.ts';

const MOST_SUBJECTS = 20;
const SUBJECTS = `expected 1 to ${MOST_SUBJECTS} names of one person, each of 3 to 255 characters: an id such as usr_3071, an e-mail address, or an event id`;

/** A shorter one would be in fields that name nobody. */
const subject = z.string(SUBJECTS).trim().min(3, SUBJECTS).max(255, SUBJECTS).refine(isStorable, SUBJECTS);

/** Forms and queries have them in one field. */
const namesOfPerson = z
  .preprocess(
    (given) => (typeof given === 'string' ? given.split(/[,\n]/).filter((one) => one.trim()) : given),
    z.array(subject, SUBJECTS).min(1, SUBJECTS).max(MOST_SUBJECTS, SUBJECTS),
  )
  .describe(
    'Names of one person, as payloads have them: an id (`usr_3071`), an e-mail address, the identity provider’s name for them; or the ids of single events.',
  );

/** An erasure as an operator requests it. */
export const eraseRequest = z.strictObject({
  subjects: namesOfPerson,
  exact: z
    .boolean()
    .optional()
    .describe(
      'Look for these names alone. By default also for the e-mail addresses and provider’s names that events have beside them, unless another person has them too.',
    ),
  reason: OPERATED.reason,
  dryRun: OPERATED.dryRun,
  erasureId: ownId,
});

export type ParsedEraseRequest = z.output<typeof eraseRequest>;

export const erasurePreview = z
  .object({
    generatedAt: shape.instant,
    request: z.object(eraseRequest.shape).partial().describe('The request to send, with a reason.'),
    events: shape.count.describe('Events that name the person.'),
    topics: z.array(z.object({ topic: shape.topic, events: shape.count })),
    timers: shape.count.describe('Those of these events that are timers, and not released yet.'),
    pending: z
      .array(z.object({ topic: shape.topic, subscriber: z.string(), count: shape.count }))
      .describe('Unfinished deliveries of these events. Their subscribers would be handed erased payloads.'),
    names: z
      .array(
        z.object({
          name: z.string().describe('Of personal data only the first letter.'),
          origin: z.enum(['asked', 'linked', 'shared', 'beside']),
        }),
      )
      .describe(
        'The names that it looks for: those `asked` for, and those `linked` to them, which events have beside them. It does not look for a name `shared` with another person, nor for an id found `beside` one that was asked for: ask for these too where they are the person’s.',
      ),
    notSearched: z
      .array(shape.topic)
      .describe(
        'Topics with personal data that name nobody: find such events otherwise, and erase them by their ids.',
      ),
    searched: shape.count.describe('Events that were read for this preview.'),
    isComplete: z.boolean().describe('False where time was short: the erasure reads all, and may find more.'),
  })
  .meta({ id: 'ErasurePreview', description: 'What an erasure would overwrite. Nothing was overwritten.' });

export type ErasurePreview = z.output<typeof erasurePreview>;

/** A function has half a minute. */
const LONGEST_MS = 15 * SECOND;

/** Previews an erasure. Changes nothing. */
export async function readPreview(db: Database, asked: ParsedEraseRequest): Promise<ErasurePreview> {
  const { subjects, exact = false, erasureId } = asked;
  const found = await previewErasure(db, { subjects, isExact: exact }, Date.now() + LONGEST_MS);
  return {
    generatedAt: instantOf(found.nowMs),
    request: { subjects: [...subjects], ...(exact && { exact }), erasureId: erasureId ?? uuidv7() },
    events: found.topics.reduce((sum, { events }) => sum + events, 0),
    topics: [...found.topics],
    timers: found.timers,
    pending: [...found.pending],
    names: found.names.map(({ text, isPersonal, origin }) => ({
      name: maskedName({ text, isPersonal }),
      origin,
    })),
    notSearched: [...topicsNamingNobody()],
    searched: found.searched,
    isComplete: found.isComplete,
  };
}

/** Says what an erasure would overwrite. */
export function erasurePlan(view: ErasurePreview): Plan {
  const { names, searched, topics, request, events, isComplete, notSearched } = view;
  const sought = names.filter(({ origin }) => origin === 'asked' || origin === 'linked');
  const looked = joinNames(sought.map(({ name }) => name));
  return {
    what: quantity(events, 'event'),
    matched: events,
    warnings: warningsOf(view),
    list: topics.length > 0 && topicList(topics),
    facts: [
      ['Names', mono(looked)],
      [
        'Overwrites',
        'Personal data of payloads, attempts, dead letters, notifications, incidents and error groups. Nothing brings it back',
      ],
      ['Stays', 'Ids, order, counts, states, the audit trail; events that are recorded later'],
      [
        'Can’t be searched',
        `${joinNames(notSearched)}: find such events by another id, such as a booking’s, and erase them by their event ids`,
      ],
    ],
    request,
    typed: request.subjects?.[0] ?? '',
    cancel: replaysPath({ only: 'erasures' }),
    nothing: events === 0 && isComplete && say`None of the ${count(searched)} events names ${mono(looked)}.`,
  };
}

/** The events that name the person, by topic. */
function topicList(rows: ErasurePreview['topics']): List<ErasurePreview['topics'][number]> {
  return {
    name: 'Events by topic',
    columns: [
      { label: 'Topic', cell: ({ topic }) => link(topicPath(topic), topic) },
      countColumn('Events', ({ events }) => events),
    ],
    rows,
  };
}

/** What to consider before an erasure, the most important first. */
function warningsOf({ names, timers, pending, isComplete }: ErasurePreview): Warnings {
  const waiting = pending.reduce((sum, one) => sum + one.count, 0);
  const to = [...new Set(pending.map(({ subscriber }) => subscriber))];
  const of = (...origins: readonly string[]) =>
    names.filter(({ origin }) => origins.includes(origin)).map(({ name }) => name);
  const [linked, others] = [of('linked'), of('shared', 'beside')];
  return [
    waiting > 0 && [
      `Not finished: ${quantity(waiting, 'delivery')} of these events.`,
      `${joinNames(to)} would be handed erased payloads. To have them handled first, let them be delivered, or replay them.`,
    ],
    timers > 0 && [
      `Not happened yet: ${quantity(timers, 'event')} of these.`,
      'Erased timers stay set, and are released with what is left of their payloads. To prevent that, cancel them.',
    ],
    linked.length > 0 && [
      `These events also name the person by: ${joinNames(linked)}.`,
      'Events that name only this are erased too, unless you look for exactly the given names.',
    ],
    others.length > 0 && [
      `It does not look for ${joinNames(others)}, which these events also have.`,
      'Ids, and names of someone else too, are not followed. If one is the person’s, ask for it too.',
    ],
    !isComplete && [
      'There are more events than this preview could read.',
      'The erasure reads all of them, and may find more.',
    ],
  ];
}

/** The form that previews a new erasure. */
export function newErasure({ operator }: PageContext): Html {
  if (!operator.scopes.has('event-bus:erase')) return missingScope('Erase', 'event-bus:erase');
  return html`<form class="filters" method="post" action="${erasuresPath()}">
    ${hiddenField('dryRun', 'true')}
    <label class="f">
      Names of the person
      <input
        name="subjects"
        required
        size="44"
        autocomplete="off"
        spellcheck="false"
        placeholder="usr_3071, kari.lunde@example.no"
        title="Ids, e-mail addresses or event ids, with commas between them"
      />
    </label>
    <label class="check"><input type="checkbox" name="exact" value="true" /> These names alone</label>
    <button class="btn">Preview the erasure</button>
  </form>`;
}
