import { answered, invalid } from '../../platform/http/operation.ts';
import { knownIn } from '../kit/known-names.ts';
import { HOME } from '../kit/links.ts';
import { operatorRoute } from '../kit/route.ts';
import { logPage } from './log-page.ts';
import { logQuery, operatorLog, readOperatorLog } from './read.ts';

export const listReplays = operatorRoute({
  id: 'listReplays',
  path: `${HOME}/replays`,
  scope: 'event-bus:read',
  summary: 'Read the operator log, newest first',
  query: logQuery,
  answer: operatorLog,
  problems: ['validation_failed'],
  examples: {
    'the-newest': {
      summary: 'The ten newest',
      parameters: { limit: 10 },
      answer: answered(),
    },
    'a-wrong-cursor': {
      summary: 'With an invalid cursor',
      parameters: { cursor: 'yesterday' },
      answer: invalid('cursor', 'custom', 'expected a cursor from an earlier answer, or none'),
    },
  },
  handle: async ({ query, bus }) => {
    return await readOperatorLog(await knownIn(bus, query), query);
  },
  page: logPage,
});
