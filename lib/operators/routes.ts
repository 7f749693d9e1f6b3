import * as z from 'zod';

import { asyncApi } from '../catalog-description/asyncapi.ts';
import { catalog, isTopicName } from '../catalog/catalog.ts';
import type { Topic } from '../catalog/topic.ts';
import type { Database } from '../db/connect.ts';
import { mediaTypes } from '../http/body.ts';
import { Problem } from '../http/problem.ts';
import { readContent, requireValid, validated } from '../http/validated.ts';
import type { Bus } from './access/asked.ts';
import { describeCatalog } from './catalog/read.ts';
import { asyncApiPage } from './catalog/asyncapi-page.ts';
import { catalogPage } from './catalog/page.ts';
import { deadLetterPage } from './dead-letters/delivery-page.ts';
import { deadLettersPage } from './dead-letters/page.ts';
import { doctorPage } from './doctor/page.ts';
import { HOME, replayedPath } from './page/links.ts';
import { logPage } from './replays/log-page.ts';
import { overviewPage } from './overview/page.ts';
import { previewPage } from './replays/preview-page.ts';
import { replayPage } from './replays/page.ts';
import { topicPage } from './lanes/page.ts';
import { readDeadLetter, revealDeadLetter } from './dead-letters/delivery.ts';
import type { DeadLetter } from './dead-letters/delivery.ts';
import { deadLetterQuery } from './dead-letters/query.ts';
import { readDeadLetters } from './dead-letters/read.ts';
import { examine } from './doctor/read.ts';
import { readSent } from './access/endpoint.ts';
import type { OperatorRoute } from './access/endpoint.ts';
import { deliveryIdOf, filled, needsReason, requiredReason } from './access/asked.ts';
import { hasEvents, requireKnownTopic } from './dead-letters/known-topic.ts';
import { laneRoutes } from './lanes/routes.ts';
import { readOverview } from './overview/read.ts';
import { SECOND } from '../time.ts';
import { readTopic } from './lanes/read.ts';
import { previewReplay } from './replays/preview.ts';
import { CountChanged, NoSuchSubscription, replay } from '../deliveries/replay.ts';
import { replayForm, replayRequest } from '../deliveries/replay-request.ts';
import type { ParsedReplayRequest } from '../deliveries/replay-request.ts';
import { logQuery, readOperatorLog, readReplay } from './replays/read.ts';

export function overviewRoutes({ database, subscribers, relays }: Bus): readonly OperatorRoute[] {
  return [
    {
      method: 'GET',
      path: HOME,
      scope: 'event-bus:read',
      handle: async () => {
        const view = await readOverview(await database(), subscribers(), undefined, relays());
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
        const db = await database();
        await requireKnownTopic(db, query.topic);
        const view = await readDeadLetters(db, query);
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
        const { reason } = await readSent(visit.request, revealRequest);
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
        const view = await previewed(await database(), subscribers(), asked);
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
          const view = await previewed(await database(), subscribers(), asked);
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
  return [...topicRoutes(bus), ...logRoutes(bus), ...laneRoutes(bus), ...doctorRoutes(bus)];
}

/** With what a function is given to answer in; `npm run doctor` looks at as many as one likes. */
const MOST_EXAMINED = 20_000;
const EXAMINED = `write a whole number, 1 to ${MOST_EXAMINED}`;

/** Of one check: a function has half a minute for all. */
const LONGEST_CHECK_MS = 10 * SECOND;

export const doctorQuery = z.object({
  events: z.coerce.number(EXAMINED).int(EXAMINED).min(1, EXAMINED).max(MOST_EXAMINED, EXAMINED).default(5000),
});

function doctorRoutes({ database }: Bus): readonly OperatorRoute[] {
  return [
    {
      method: 'GET',
      path: `${HOME}/doctor`,
      scope: 'event-bus:read',
      handle: async ({ url }) => {
        const { events } = requireValid(filled(url.searchParams), doctorQuery);
        const view = await examine(await database(), events, LONGEST_CHECK_MS);
        return { json: view, page: (context) => doctorPage(view, context) };
      },
    },
  ];
}

function topicRoutes({ database, subscribers }: Bus): readonly OperatorRoute[] {
  return [
    {
      method: 'GET',
      path: `${HOME}/topics/:topic`,
      scope: 'event-bus:read',
      handle: async ({ parameters }) => {
        const topic = parameters['topic'] ?? '';
        const db = await database();
        if (!isTopicName(topic) && !(await hasEvents(db, topic)))
          throw new Problem('not_found', { detail: 'The catalog has no such topic.' });
        const view = await readTopic(db, subscribers(), topic);
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
    {
      method: 'GET',
      path: `${HOME}/catalog/asyncapi`,
      scope: 'event-bus:read',
      handle: async () => {
        const document = asyncApi();
        return { json: document, page: (context) => asyncApiPage(document, context) };
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
        if (!view) throw new Problem('not_found', { detail: 'There is no such replay.' });
        return { json: view, page: (context) => replayPage(view, context) };
      },
    },
  ];
}

export const revealRequest = z.object({ reason: requiredReason }).meta(needsReason);

const SUBSCRIBERS_BY_TOPIC = Object.entries<Topic>(catalog).map(([topic, { subscribers }]) => ({
  topic,
  subscribers,
}));

function shown(view: DeadLetter | null) {
  if (!view) throw new Problem('not_found', { detail: 'There is no such delivery.' });
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
    throw new Problem('not_confirmed', { detail: `Type ${expectedCount} to confirm.` });
  }
  return asked;
}

/** @throws Problem 409 for what can't be replayed as it stands. */
async function replayed(db: Database, asked: ParsedReplayRequest, by: string) {
  await requireKnownTopic(db, asked.topic);
  try {
    return await replay(db, asked, by);
  } catch (error) {
    if (error instanceof CountChanged) {
      throw new Problem(error.code, { detail: `${error.message}.`, cause: error });
    }
    if (error instanceof NoSuchSubscription)
      throw new Problem(error.code, { detail: error.message, cause: error });
    throw error;
  }
}

async function previewed(db: Database, attached: ReturnType<Bus['subscribers']>, asked: ParsedReplayRequest) {
  await requireKnownTopic(db, asked.topic);
  return await previewReplay(db, attached, asked);
}
