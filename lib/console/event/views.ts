import * as z from 'zod';

import { refused } from '../../platform/http/operation.ts';
import { Problem } from '../../platform/http/problem.ts';
import { NO_REASON } from '../kit/action.ts';
import { eventPath, HOME, revealedPath } from '../kit/links.ts';
import { findReveal, recordReveal, revealQuery } from '../kit/reveal.ts';
import { operatorRoute } from '../kit/route.ts';
import * as shape from '../kit/shapes.ts';
import { view } from '../kit/view.ts';
import { eventDoc } from './doc.ts';
import { readEvent } from './read.ts';
import { eventView } from './view.ts';

const OTHER_IDS = 'delivery, correlation and webhook ids, keys, and ids in payloads';
const UNKNOWN = `Unknown event. Its id is a UUID. A search finds events by other ids too: ${OTHER_IDS}.`;

/** No event has this id. */
const NO_EVENT = '019c7f3e-0000-7000-8000-000000000000';
const REFUSED = refused('not_found', { detail: unknownWords(NO_EVENT) });

const eventId = z.string().max(200).meta({ format: 'uuid', description: 'The id of an event.' });

export const showEvent = view({
  id: 'readEvent',
  path: `${HOME}/events/{eventId}`,
  summary: 'See one event: where it is, why each of its deliveries waits, what caused it and what it caused',
  parameters: { eventId },
  query: revealQuery,
  answer: eventView,
  unknown: UNKNOWN,
  examples: {
    nobody: { summary: 'An unknown event', parameters: { eventId: NO_EVENT }, answer: REFUSED },
  },
  handle: async ({ parameters, query, operator, bus }) => {
    requireEventId(parameters.eventId);
    const db = await bus.database();
    const reveal = await findReveal(db, operator, query, parameters.eventId);
    const options = { attached: bus.subscribers(), reveal };
    return (await readEvent(db, parameters.eventId, options)) ?? unknown(parameters.eventId);
  },
  says: eventDoc,
});

const revealEvent = operatorRoute({
  id: 'revealEvent',
  path: `${HOME}/events/{eventId}/reveal`,
  scope: 'event-bus:reveal',
  summary: 'See one event with its personal data; the operator and the reason are recorded',
  parameters: { eventId },
  body: z.object({ reason: shape.requiredReason }).meta(shape.needsReason),
  answer: eventView,
  unknown: UNKNOWN,
  examples: {
    nobody: {
      summary: 'An unknown event',
      parameters: { eventId: NO_EVENT },
      json: { reason: 'A citizen asks where the refund is.' },
      answer: REFUSED,
    },
    'without-a-reason': {
      summary: 'Without a reason',
      parameters: { eventId: NO_EVENT },
      json: {},
      answer: NO_REASON,
    },
  },
  handle: async ({ parameters, body, operator, bus }) => {
    const { eventId: id } = parameters;
    requireEventId(id);
    const db = await bus.database();
    const by = operator.subject;
    const reveal = await recordReveal(db, { eventId: id, subscriber: null, by, ...body });
    const options = { attached: bus.subscribers(), reveal };
    return (reveal && (await readEvent(db, id, options))) || unknown(id);
  },
  // To an address of its own, so that a reload asks for the page again and not for another reveal.
  redirectTo: ({ event: { reveal } }, { parameters }) =>
    reveal && revealedPath(eventPath(parameters.eventId), reveal.revealId),
});

export const eventViews = [showEvent, { route: revealEvent }];

/** @throws Problem 404 for a text that is no event's id. */
function requireEventId(text: string): void {
  if (!z.uuid().safeParse(text).success) unknown(text);
}

/** @throws Problem 404 */
function unknown(text: string): never {
  throw new Problem('not_found', { detail: unknownWords(text) });
}

function unknownWords(text: string): string {
  return `No event has the id '${text}'. A search finds events by other ids too: ${OTHER_IDS}.`;
}
