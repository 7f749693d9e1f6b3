import { answered } from '../../platform/http/operation.ts';
import { knownIn, MISSPELT_TOPIC } from '../kit/known-names.ts';
import { HOME } from '../kit/links.ts';
import { operatorRoute } from '../kit/route.ts';
import { readTail, tail, tailQuery } from './read.ts';

export const showTail = operatorRoute({
  id: 'readTail',
  path: `${HOME}/tail`,
  scope: 'event-bus:read',
  summary: 'Read the newest outcomes of deliveries',
  description: 'What was delivered, waits for a retry after it failed, or was given up, newest first.',
  query: tailQuery,
  answer: tail,
  problems: ['validation_failed'],
  examples: {
    'of-a-subscriber': {
      summary: 'What failed for one subscriber',
      parameters: { subscriber: 'accounting', outcome: 'failing' },
      answer: answered(),
    },
    'an-unknown-topic': MISSPELT_TOPIC,
  },
  handle: async ({ query, bus }) => {
    const db = await knownIn(bus, query);
    return await readTail(db, query, bus.subscribers());
  },
});

export const tailRoutes = [showTail];
