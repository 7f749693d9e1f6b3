import { v7 as uuidv7 } from 'uuid';
import * as z from 'zod';

import { previewErasure } from '../../components/erasures/erase-preview.ts';
import { maskedName } from '../../components/erasures/erased-names.ts';
import { topicsNamingNobody } from '../../components/erasures/person.ts';
import type { Database } from '../../platform/db/connect.ts';
import { instantOf, SECOND } from '../../platform/time.ts';
import { link, mono } from '../kit/document.ts';
import type { List } from '../kit/document.ts';
import { erasuresPath, topicPath } from '../kit/links.ts';
import type { Warnings } from '../kit/operation-pages.ts';
import type { Plan } from '../kit/plan.ts';
import * as shape from '../kit/shapes.ts';
import { count, joinNames, quantity } from '../kit/words.ts';
import { eraseRequest } from './request.ts';
import type { ParsedEraseRequest } from './request.ts';

export const erasurePreview = z
  .object({
    generatedAt: shape.instant,
    request: z
      .object(eraseRequest.shape)
      .partial()
      .meta({ description: 'The request to send, with a reason.' }),
    events: shape.count.meta({ description: 'Events that name the person.' }),
    topics: z.array(z.object({ topic: shape.topic, events: shape.count })),
    timers: shape.count.meta({ description: 'Those of these events that are timers, and not released yet.' }),
    pending: z.array(z.object({ topic: shape.topic, subscriber: z.string(), count: shape.count })).meta({
      description:
        'Unfinished deliveries of these events. Their subscribers would be handed erased payloads.',
    }),
    names: z
      .array(
        z.object({
          name: z.string().meta({ description: 'Of personal data only the first letter.' }),
          origin: z.enum(['asked', 'linked', 'shared', 'beside']),
        }),
      )
      .meta({
        description:
          'The names that it looks for: those `asked` for, and those `linked` to them, which events have beside them. It does not look for a name `shared` with another person, nor for an id found `beside` one that was asked for: ask for these too where they are the person’s.',
      }),
    notSearched: z.array(shape.topic).meta({
      description:
        'Topics with personal data that name nobody: find such events otherwise, and erase them by their ids.',
    }),
    searched: shape.count.meta({ description: 'Events that were read for this preview.' }),
    isComplete: z
      .boolean()
      .meta({ description: 'False where time was short: the erasure reads all, and may find more.' }),
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
  const { names, searched, pending, notSearched, topics, request, events } = view;
  const sought = names.filter(({ origin }) => origin === 'asked' || origin === 'linked');
  return {
    what: quantity(events, 'event'),
    matched: events,
    lead: 'Nothing has been overwritten yet. Once it has been, nothing brings it back.',
    warnings: warningsOf(view),
    list: topics.length > 0 && topicList(topics),
    facts: [
      ['Looks for', mono(joinNames(sought.map(({ name }) => name)))],
      [
        'Overwrites',
        'Personal data of payloads, attempts, dead letters, notifications, incidents and error groups',
      ],
      ['Stays', 'Ids, order, counts, states, the audit trail'],
      ['Events read', count(searched)],
      pending.length > 0 && [
        'Not finished',
        joinNames(pending.map((one) => `${count(one.count)} of ${one.topic} to ${one.subscriber}`)),
      ],
      ['Not searched', mono(joinNames(notSearched))],
    ],
    request,
    button: 'Erase permanently',
    typed: request.subjects?.[0] ?? '',
    cancel: erasuresPath(),
  };
}

/** The events that name the person, by topic. */
function topicList(rows: ErasurePreview['topics']): List<ErasurePreview['topics'][number]> {
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
function warningsOf(view: ErasurePreview): Warnings {
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
