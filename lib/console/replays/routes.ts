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
      answer: answered({
        generatedAt: '2026-02-21T09:31:00.000Z',
        replays: [],
        actions: [
          {
            actionId: '019c7f41-2c3d-7e10-8a6b-0d4f5e6a7b8c',
            at: '2026-02-21T09:30:40.000Z',
            operator: 'kari@solvik.example.no',
            action: 'pause',
            topic: null,
            subscriber: 'accounting',
            deliveryId: null,
            deliveries: null,
            eventId: null,
            reason: 'Accounting is moving to another host.',
            incidentId: null,
            backfillId: null,
            erasureId: null,
            progress: null,
            replayId: null,
          },
        ],
        nextCursor: null,
      }),
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
