import * as z from 'zod';

import type { ProblemCode } from '../../platform/http/problem-codes.ts';
import { html } from '../../platform/markup.ts';
import { MINUTE, SECOND } from '../../platform/time.ts';
import { pauseAlerts, reasonField, reasonForm } from './actions.ts';
import { byReplay, leads } from './doc.ts';
import type { Act, Doc } from './doc.ts';
import { link, mono, muted, operatorText, say, strong, whenAndAgo } from './document.ts';
import type { Facts, OperatorNames, Part } from './document.ts';
import { field, instant, instantOrNull, jsonOf, shapesOf, text, textOrNull } from './fields.ts';
import { capitalize, count, duration, numbers } from './words.ts';
import { deadLettersPath, replaysPath, topicPath } from './links.ts';
import type { Tone } from './sections.ts';
import { operatorRoute } from './route.ts';
import type { Bus, OperatorRoute } from './route.ts';
import * as shape from './shapes.ts';
import type { Counts } from './shapes.ts';
import { view } from './view.ts';
import type { View } from './view.ts';

// How far an operation is that goes on after it has begun, said once: its page, what a terminal follows, and its stop.

const stopFields = { at: instant('stop.at'), by: text('stop.operator'), reason: textOrNull('stop.reason') };

/** Who asked for it, when and why, and who stopped it. @param stop finds its stop in `operator_actions as stop`. */
export const requestedFields = (stop: string, endedAt: string) => ({
  generatedAt: instant('clock_timestamp()'),
  requestedAt: instant('requested_at'),
  requestedBy: text('requested_by'),
  reason: textOrNull('reason'),
  perMinute: field(z.int().positive().nullable().describe('Null: all at once.'), 'per_minute'),
  endedAt: instantOrNull(endedAt, 'Null while it is under way.'),
  stopped: field(
    z.object(shapesOf(stopFields)).nullable().describe('Who ended it before all was done.'),
    `(select ${jsonOf(stopFields)} from operator_actions as stop where ${stop} limit 1)`,
  ),
});

export interface Requested {
  readonly generatedAt: string;
  readonly requestedAt: string;
  readonly requestedBy: string;
  readonly reason: string | null;
  /** Null while it still acts, and can be stopped. */
  readonly endedAt: string | null;
  readonly perMinute?: number | null;
  readonly stopped?: { readonly by: string; readonly reason: string | null } | null;
  readonly topic?: string | null;
}

export interface HowFar {
  /** Whose, or of what. */
  readonly of: Part;
  readonly lead: Part;
  readonly words: string;
  /** How many are not put back or written yet. */
  readonly left?: number;
  /** What became of its deliveries. */
  readonly states?: Counts;
  /** Whose they are, where they are one's. */
  readonly subscriber?: string | null;
  readonly facts?: Facts;
}

/** An operation that goes on after it has begun. */
export interface Followable<Progress> {
  readonly pathOf: (id: string) => string;
  readonly answer: z.ZodType<Progress>;
  /** @returns null for an unknown one. */
  readonly read: (bus: Bus, id: string) => Promise<Progress | null>;
  readonly says: (progress: Progress) => HowFar;
  readonly stop?: Stop;
}

interface Stop {
  /** Says what follows. */
  readonly description: string;
  readonly problems?: readonly ProblemCode[];
  /** Of a reason. */
  readonly example: string;
  /** @throws Problem */
  readonly act: (
    bus: Bus,
    id: string,
    how: { readonly by: string; readonly reason: string },
  ) => Promise<unknown>;
}

export interface Followed<Progress = unknown> extends Pick<Followable<Progress>, 'pathOf'> {
  readonly routes: readonly OperatorRoute[];
  readonly view: View<Progress>;
  /** Its id in what was answered when it began, such as `replayId`. */
  readonly idOf: (done: object) => string;
  far(progress: Progress): Far;
  readonly stop: (Pick<Stop, 'example'> & { readonly route: OperatorRoute<Progress> }) | undefined;
}

/** How far it is, for a terminal. */
interface Far {
  readonly words: string;
  /** Whether it still acts. */
  readonly isUnderWay: boolean;
  /** Whether nothing more comes of it. */
  readonly isOver: boolean;
  /** Whether all went well. */
  readonly isGood: boolean;
}

/** Says what became of deliveries: `1 dead-lettered, 1 waiting`. */
export function statesWords({ pending, failing, deadLettered }: Counts): readonly string[] {
  return numbers([
    [deadLettered, 'dead-lettered'],
    [failing, 'failed and will be retried'],
    [pending, 'waiting'],
  ]);
}

/** Makes the page of how far one is, and the route that stops it. Its id is the path's parameter, such as `replayId`. */
export function followedBy<Progress extends Requested>(
  noun: string,
  declared: Followable<Progress>,
): Followed<Progress> {
  const { pathOf, answer, read, says, stop } = declared;
  const id = `${noun}Id`;
  const name = capitalize(noun);
  const path = `${pathOf('')}{${id}}`;
  const parameters: Readonly<Record<string, z.ZodType<string>>> = { [id]: z.uuid() };
  const common = { parameters, answer, unknown: `Unknown ${noun}. Copy its id from ${replaysPath()}.` };
  const shown = view({
    ...common,
    path,
    id: `read${name}`,
    summary: `See one ${noun}, and how far it is`,
    handle: async ({ bus, parameters: of }) => await read(bus, of[id]!),
    says: (progress, names) => progressDoc(noun, declared, progress, names),
  });
  const stopRoute =
    stop &&
    operatorRoute({
      ...common,
      id: `stop${name}`,
      path: `${path}/stop`,
      scope: 'event-bus:replay',
      summary: `Stop a ${noun} that is under way`,
      description: stop.description,
      ...(stop.problems && { problems: stop.problems }),
      body: z.object({ reason: shape.requiredReason }).meta(shape.needsReason),
      async handle({ parameters: of, body: { reason }, operator, bus }) {
        await stop.act(bus, of[id]!, { by: operator.subject, reason });
        return await read(bus, of[id]!);
      },
      redirectTo: (_, { parameters: of }) => pathOf(of[id]!),
    });
  return {
    ...declared,
    view: shown,
    routes: [shown.route, ...(stopRoute ? [stopRoute] : [])],
    idOf: (done) => idIn(done, noun),
    far: (progress) => farOf(progress, says(progress)),
    stop: stop && { ...stop, route: stopRoute! },
  };
}

const idIn = (shown: object, noun: string) =>
  String(new Map<string, unknown>(Object.entries(shown)).get(`${noun}Id`));

function farOf({ endedAt, stopped = null }: Requested, { words, states }: HowFar): Far {
  const isUnderWay = endedAt === null;
  return {
    words,
    isUnderWay,
    isOver: !isUnderWay && (!states || states.pending + states.failing === 0),
    isGood: stopped === null && (!states || states.deadLettered === 0),
  };
}

function progressDoc<Progress extends Requested>(
  noun: string,
  { pathOf, stop, says }: Followable<Progress>,
  progress: Progress,
  names: OperatorNames,
): Doc {
  const { generatedAt: at, requestedAt, requestedBy, reason, endedAt, stopped = null, perMinute } = progress;
  const { topic } = progress;
  const said = says(progress);
  const { of, lead, words, states, left = 0, subscriber, facts = [] } = said;
  const { isUnderWay, isOver } = farOf(progress, said);
  const id = idIn(progress, noun);
  const tone = toneOf(progress, said);
  const isRecent = !isOver && Date.parse(at) - Date.parse(requestedAt) < MINUTE;
  return {
    title: say`${capitalize(noun)} of ${of}`,
    tab: capitalize(noun),
    lead,
    section: 'replays',
    at,
    refreshSeconds: isUnderWay || isRecent ? 1 : REFRESH_SECONDS,
    isReloaded: isRecent && !(isUnderWay && stop),
    back: [replaysPath(), 'Operations'],
    alerts: [
      {
        tone,
        words: strong(words),
        act:
          (states?.deadLettered ?? 0) > 0 &&
          leads(deadLettersPath({ topic, subscriber }), 'Review dead letters', `of this ${noun}`),
      },
      (context) => !isOver && subscriber && pauseAlerts({ subscriber, topic: topic ?? null }, at, context),
    ],
    acts: [isUnderWay && stop !== undefined && stops(noun, pathOf(id), stop)],
    blocks: [
      {
        id: 'request',
        title: 'Request',
        facts: [
          ['Who', operatorText(requestedBy, names)],
          ['When', whenAndAgo(requestedAt, at)],
          ['Why', reason ?? muted('no reason given')],
          ['Topic', topic && link(topicPath(topic), topic)],
          ...facts,
          perMinute !== undefined && ['Pace', paceWords(perMinute, isUnderWay ? left : 0)],
          endedAt !== null &&
            endedAt !== requestedAt && [stopped === null ? 'Ended' : 'Stopped', whenAndAgo(endedAt, at)],
          stopped !== null && [
            'Stopped by',
            `${operatorText(stopped.by, names)}: ${stopped.reason ?? 'no reason given'}`,
          ],
          [`${capitalize(noun)} id`, mono(id)],
        ],
      },
    ],
  };
}

/** What waits for a retry, or for a relay, may take hours. */
const REFRESH_SECONDS = 15;

function toneOf(progress: Requested, said: HowFar): Tone {
  const { states } = said;
  const { isOver, isGood } = farOf(progress, said);
  if (states && states.deadLettered > 0) return 'dead';
  if (!isGood || (states && states.failing > 0)) return 'fail';
  return isOver ? 'ok' : 'wait';
}

/** @param left how many it has still to do. */
export function paceWords(perMinute: number | null, left: number): string {
  if (perMinute === null) return 'All at once';
  const time = left > 0 ? `, about ${duration(Math.ceil((left / perMinute) * 60) * SECOND)}` : '';
  return `${count(perMinute)} a minute${time}`;
}

/** The form that stops it. */
function stops(noun: string, path: string, { description, example }: Stop): Act {
  return byReplay(() =>
    reasonForm({
      button: 'Stop…',
      path: `${path}/stop`,
      text: description,
      fields: reasonField(`for example: ${example}`),
      submit: html`<button class="btn sm">Stop the ${noun}</button>`,
    }),
  );
}
