import { requireKnownTopic } from '../kit/known-names.ts';
import { listRoute, showRoute } from '../kit/operation-routes.ts';
import { RENAME, renamedPage, renamesPage } from './pages.ts';
import { listQuery, readRename, readRenames, renameList, renameProgress } from './read.ts';

export const listRenames = listRoute(RENAME, {
  id: 'listRenames',
  query: listQuery,
  answer: renameList,
  links: { operationId: 'readRename', id: 'renameId' },
  example: {
    name: 'of-a-name',
    summary: 'Those of one name',
    parameters: { subscriber: 'postcards', limit: 10 },
    view: {
      generatedAt: '2026-02-21T09:33:10.000Z',
      items: [
        {
          renameId: '019c7f40-11ac-7c2e-9d55-7b1f6a0c3d21',
          action: 'rename',
          topic: 'payment.captured',
          subscriber: 'postcards',
          renamedTo: 'notifications',
          requestedAt: '2026-02-21T09:31:20.000Z',
          requestedBy: 'kari@solvik.example.no',
          reason: 'Postcards are notifications now.',
          matched: 14,
          moved: 14,
          dismissed: 0,
          endedAt: '2026-02-21T09:31:21.000Z',
        },
      ],
      nextCursor: null,
    },
  },
  // A name that has left is in no catalog, so any is accepted.
  read: async (bus, query) => {
    const db = await bus.database();
    await requireKnownTopic(db, query.topic);
    return await readRenames(db, query);
  },
  page: renamesPage,
});

export const showRename = showRoute(
  {
    kind: RENAME,
    answer: renameProgress,
    read: async (bus, renameId) => await readRename(await bus.database(), renameId),
  },
  'See one rename or retirement, and how far it is',
  renamedPage,
);

export const renameRoutes = [listRenames, showRename];
