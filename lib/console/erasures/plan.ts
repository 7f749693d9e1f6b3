import { v7 as uuidv7 } from 'uuid';
import * as z from 'zod';

import { previewErasure } from '../../components/erasures/erase-preview.ts';
import { maskedName } from '../../components/erasures/erased-names.ts';
import { topicsNamingNobody } from '../../components/erasures/person.ts';
import type { Database } from '../../platform/db/connect.ts';
import { instantOf, SECOND } from '../../platform/time.ts';
import { mono } from '../kit/document.ts';
import { erasuresPath } from '../kit/links.ts';
import type { Plan } from '../kit/plan.ts';
import * as shape from '../kit/shapes.ts';
import { count, joinNames, quantity } from '../kit/words.ts';
import { topicList, warningsOf } from './words.ts';
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
