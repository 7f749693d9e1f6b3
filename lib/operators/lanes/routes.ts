import * as z from 'zod';

import { catalog } from '../../catalog/catalog.ts';
import type { Topic } from '../../catalog/topic.ts';
import { Problem } from '../../http/problem.ts';
import { deliveryIdOf, needsReason, optionalReason, requiredReason } from '../access/asked.ts';
import type { Bus } from '../access/asked.ts';
import { HOME } from '../page/links.ts';
import { NotActedOn } from '../../deliveries/first-of-lane.ts';
import type { ActedOn } from '../../deliveries/first-of-lane.ts';
import { retryNow } from '../../deliveries/retry-now.ts';
import { skip } from '../../deliveries/skip.ts';
import { readSent } from '../access/endpoint.ts';
import type { OperatorRoute, OperatorVisit } from '../access/endpoint.ts';
import { pause, resume } from '../../deliveries/pause.ts';
import { topicName, topicText } from '../../deliveries/replay-request.ts';
import { nextPath } from '../access/routes.ts';

/** What is done to lanes and subscribers. Whoever did it comes back to the page they did it from. */
export function laneRoutes({ database, kick }: Bus): readonly OperatorRoute[] {
  return [
    {
      method: 'POST',
      path: `${HOME}/deliveries/:deliveryId/retry`,
      scope: 'event-bus:replay',
      handle: async (visit) => {
        const { reason = null, next } = await readSent(visit.request, optionalReason);
        const by = visit.operator.subject;
        const done = await acted(retryNow(await database(), { deliveryId: deliveryIdOf(visit), by, reason }));
        kick();
        return { json: done, seeOther: nextPath(next) };
      },
    },
    {
      method: 'POST',
      path: `${HOME}/deliveries/:deliveryId/skip`,
      scope: 'event-bus:replay',
      handle: async (visit) => {
        const { reason, next } = await readSent(visit.request, skipRequest);
        const by = visit.operator.subject;
        const done = await acted(skip(await database(), { deliveryId: deliveryIdOf(visit), by, reason }));
        kick();
        return { json: done, seeOther: nextPath(next) };
      },
    },
    {
      method: 'POST',
      path: `${HOME}/subscribers/:subscriber/pause`,
      scope: 'event-bus:replay',
      handle: async (visit) => {
        const { reason, topic, next } = await readSent(visit.request, pauseRequest);
        const subscriber = subscriberOf(visit, topic);
        await pause(await database(), { subscriber, topic }, visit.operator.subject, reason);
        return { json: { subscriber, topic, paused: true }, seeOther: nextPath(next) };
      },
    },
    {
      method: 'POST',
      path: `${HOME}/subscribers/:subscriber/resume`,
      scope: 'event-bus:replay',
      handle: async (visit) => {
        const { reason = null, topic, next } = await readSent(visit.request, resumeRequest);
        const subscriber = visit.parameters['subscriber'] ?? '';
        // Whatever is paused can be resumed, also what this release's catalog no longer lists.
        const isResumed =
          SUBSCRIBER.test(subscriber) &&
          (await resume(await database(), { subscriber, topic }, visit.operator.subject, reason));
        if (!isResumed) subscriberOf(visit, topic);
        kick();
        return { json: { subscriber, topic, paused: false }, seeOther: nextPath(next) };
      },
    },
  ];
}

/** A name that a catalog may have. */
const SUBSCRIBER = /^[\w.-]{1,100}$/;

const oneTopicOrAll = (topic: z.ZodType<string, string>) =>
  z
    .union([z.literal('').transform(() => null), topic])
    .nullish()
    .transform((named) => named ?? null)
    .meta({ description: 'Of this topic alone; without it, of all its topics.' });

export const skipRequest = optionalReason.extend({ reason: requiredReason }).meta(needsReason);
export const pauseRequest = skipRequest.extend({ topic: oneTopicOrAll(topicName) }).meta(needsReason);
export const resumeRequest = optionalReason.extend({ topic: oneTopicOrAll(topicText) });

/** The subscriber that a path names. @throws Problem 404 when the catalog lists no such one for the topic. */
function subscriberOf({ parameters }: OperatorVisit, topic: string | null): string {
  const name = parameters['subscriber'] ?? '';
  const isListed = Object.entries<Topic>(catalog).some(
    ([other, { subscribers }]) =>
      (topic === null || other === topic) && subscribers.some((listed) => listed === name),
  );
  if (!isListed) throw new Problem('not_found', { detail: 'The catalog lists no such subscriber.' });
  return name;
}

/** @throws Problem 404 or 409 for what can't be done. */
async function acted(doing: Promise<ActedOn>): Promise<ActedOn> {
  try {
    return await doing;
  } catch (error) {
    if (!(error instanceof NotActedOn)) throw error;
    throw new Problem(error.code, { detail: error.message, cause: error });
  }
}
