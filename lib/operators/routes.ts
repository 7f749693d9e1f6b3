import { z } from 'zod';

import { catalog, isTopicName } from '../catalog/catalog.ts';
import type { Topic } from '../catalog/topic.ts';
import type { Database } from '../db/connect.ts';
import { mediaTypes } from '../http/body.ts';
import { badRequest, notFound, Problem } from '../http/problem.ts';
import { readContent, requireValid, validated } from '../http/validated.ts';
import type { Bus } from './asked.ts';
import { describeCatalog } from './catalog-view.ts';
import { catalogPage } from './console/catalog.ts';
import { deadLetterPage } from './console/dead-letter.ts';
import { deadLettersPage } from './console/dead-letters.ts';
import { HOME, replayedPath } from './console/links.ts';
import { logPage } from './console/log.ts';
import { overviewPage } from './console/overview.ts';
import { previewPage } from './console/preview.ts';
import { replayPage } from './console/replay.ts';
import { topicPage } from './console/topic.ts';
import { readDeadLetter, revealDeadLetter } from './dead-letter.ts';
import type { DeadLetter } from './dead-letter.ts';
import { deadLetterQuery, readDeadLetters } from './dead-letters.ts';
import { readSent } from './operator-endpoint.ts';
import type { OperatorRoute } from './operator-endpoint.ts';
import { deliveryIdOf, filled, requiredReason } from './asked.ts';
import { laneRoutes } from './lane-routes.ts';
import { readOverview } from './overview.ts';
import { readTopic } from './topic-view.ts';
import { previewReplay } from './preview.ts';
import { CountChanged, replay } from './replay.ts';
import { replayForm, replayRequest } from './replay-request.ts';
import type { ParsedReplayRequest } from './replay-request.ts';
import { logQuery, readOperatorLog, readReplay } from './replays.ts';

export function overviewRoutes({ database, subscribers }: Bus): readonly OperatorRoute[] {
  return [
    {
      method: 'GET',
      path: HOME,
      scope: 'event-bus:read',
      handle: async () => {
        const view = await readOverview(await database(), subscribers());
        return { json: view, page: (context) => overviewPage(view, context) };
      },
    },
  ];
}

export function deadLetterRoutes({ database }: Bus): readonly OperatorRoute[] {
  return [
    {
      method: 'GET',
      path: `${HOME}/dead-letters`,
      scope: 'event-bus:read',
      handle: async ({ url }) => {
        const query = requireValid(filled(url.searchParams), deadLetterQuery);
        const view = await readDeadLetters(await database(), query);
        return { json: view, page: (context) => deadLettersPage(view, context, SUBSCRIBERS_BY_TOPIC) };
      },
    },
    {
      method: 'GET',
      path: `${HOME}/dead-letters/:deliveryId`,
      scope: 'event-bus:read',
      handle: async (visit) => shown(await readDeadLetter(await database(), deliveryIdOf(visit))),
    },
    {
      method: 'POST',
      path: `${HOME}/dead-letters/:deliveryId/reveal`,
      scope: 'event-bus:reveal',
      handle: async (visit) => {
        const { reason } = await readSent(visit.request, z.object({ reason: requiredReason }));
        const by = visit.operator.subject;
        return shown(await revealDeadLetter(await database(), deliveryIdOf(visit), by, reason));
      },
    },
  ];
}

export function replayRoutes({ database, subscribers, kick }: Bus): readonly OperatorRoute[] {
  return [
    {
      method: 'GET',
      path: `${HOME}/replay`,
      scope: 'event-bus:read',
      handle: async ({ url }) => {
        const asked = requireValid(filled(url.searchParams), replayForm);
        const view = await previewReplay(await database(), subscribers(), asked);
        return { json: view, page: (context) => previewPage(view, context) };
      },
    },
    {
      method: 'POST',
      path: `${HOME}/replay`,
      scope: 'event-bus:replay',
      handle: async ({ request, operator }) => {
        const asked = await readReplayRequest(request);
        const done = await replayed(await database(), asked, operator.subject);
        if (done.replayId === null) {
          const view = await previewReplay(await database(), subscribers(), asked);
          return { json: { ...view, ...done }, page: (context) => previewPage(view, context) };
        }
        if (done.replayed > 0) kick();
        return { json: done, seeOther: replayedPath(done.replayId) };
      },
    },
  ];
}

/** All other pages, and what is done from them. */
export function consoleRoutes(bus: Bus): readonly OperatorRoute[] {
  return [...topicRoutes(bus), ...logRoutes(bus), ...laneRoutes(bus)];
}

function topicRoutes({ database, subscribers }: Bus): readonly OperatorRoute[] {
  return [
    {
      method: 'GET',
      path: `${HOME}/topics/:topic`,
      scope: 'event-bus:read',
      handle: async ({ parameters }) => {
        const topic = parameters['topic'] ?? '';
        if (!isTopicName(topic)) throw notFound('not_found', 'The catalog has no such topic.');
        const view = await readTopic(await database(), subscribers(), topic);
        return { json: view, page: (context) => topicPage(view, context) };
      },
    },
    {
      method: 'GET',
      path: `${HOME}/catalog`,
      scope: 'event-bus:read',
      handle: async () => {
        const view = describeCatalog(subscribers());
        return { json: view, page: (context) => catalogPage(view, context) };
      },
    },
  ];
}

function logRoutes({ database }: Bus): readonly OperatorRoute[] {
  return [
    {
      method: 'GET',
      path: `${HOME}/replays`,
      scope: 'event-bus:read',
      handle: async ({ url }) => {
        const view = await readOperatorLog(
          await database(),
          requireValid(filled(url.searchParams), logQuery),
        );
        return { json: view, page: (context) => logPage(view, context) };
      },
    },
    {
      method: 'GET',
      path: `${HOME}/replays/:replayId`,
      scope: 'event-bus:read',
      handle: async ({ parameters }) => {
        const id = z.uuid().safeParse(parameters['replayId']);
        const view = id.success ? await readReplay(await database(), id.data) : null;
        if (!view) throw notFound('not_found', 'There is no such replay.');
        return { json: view, page: (context) => replayPage(view, context) };
      },
    },
  ];
}

const SUBSCRIBERS_BY_TOPIC = Object.entries<Topic>(catalog).map(([topic, { subscribers }]) => ({
  topic,
  subscribers,
}));

function shown(view: DeadLetter | null) {
  if (!view) throw notFound('not_found', 'There is no such delivery.');
  return {
    json: view,
    page: (context: Parameters<typeof deadLetterPage>[1]) => deadLetterPage(view, context),
  };
}

/** A thousand delivery ids and a reason. */
const BODY_LIMIT_BYTES = 64 * 1024;

/** A form that replays more than this has its number typed. */
const UNCONFIRMED = 100;

/** What a form says besides the request: where it came from, and the number that was typed to confirm. */
const confirmedForm = z.looseObject({ confirm: z.string().optional(), next: z.string().optional() });

async function readReplayRequest(request: Request): Promise<ParsedReplayRequest> {
  const content = await readContent(request, mediaTypes, BODY_LIMIT_BYTES);
  if (content.type === 'application/json') return validated(content, replayRequest);
  const { confirm, next: _, ...fields } = validated(content, confirmedForm);
  const asked = requireValid(fields, replayForm);
  const { expectedCount = 0 } = asked;
  const isTyped = confirm?.replaceAll(/\D/g, '') === String(expectedCount);
  if (!isTyped && (confirm !== undefined || expectedCount > UNCONFIRMED)) {
    throw badRequest('not_confirmed', `Type ${expectedCount} to confirm.`);
  }
  return asked;
}

async function replayed(db: Database, asked: ParsedReplayRequest, by: string) {
  try {
    return await replay(db, asked, by);
  } catch (error) {
    if (error instanceof CountChanged) {
      throw new Problem(409, error.code, `${error.message}.`, { cause: error });
    }
    throw error;
  }
}
