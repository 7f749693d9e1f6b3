import { stopReplay } from '../../bus/deliveries/operations/paced-replay.ts';
import { replay } from '../../bus/deliveries/operations/replay.ts';
import type { Replay } from '../../bus/deliveries/operations/replay.ts';
import { Problem } from '../../platform/http/problem.ts';
import * as z from 'zod';
import { knownIn } from '../kit/known-names.ts';
import { incidentPath, replayedPath, replayPath } from '../kit/links.ts';
import { operation } from '../kit/operation.ts';
import { CHOOSING, replayRequest } from '../kit/replay-request.ts';
import { count, quantity } from '../kit/words.ts';
import * as shape from '../kit/shapes.ts';
import { previewReplay, replayPlan, replayPreview } from './preview.ts';
import { readReplay, replayFar, replayProgress } from './progress.ts';

const replayed = z
  .object({
    replayId: z.uuid(),
    topic: shape.topic.nullable().describe('Null if the deliveries may be of several topics.'),
    since: z.string().nullable(),
    matched: shape.count,
    replayed: shape.count.describe('Put back so far.'),
  })
  .meta({ id: 'Replayed', description: 'The re-queued deliveries.' }) satisfies z.ZodType<Replay>;

export const replaying = operation({
  verb: 'replay',
  past: 'replayed',
  noun: 'replay',
  section: 'dead-letters',
  path: replayPath({}),
  id: 'replay',
  previewId: 'previewReplay',
  summary: 'deliver dead letters, or everything, again',
  description:
    'Returns deliveries to pending, with fresh attempts. They keep their events, their places and their histories. Without a topic, dead letters of all topics. The operator, the time, the reason and the request are recorded.',
  problems: ['not_confirmed', 'count_changed', 'no_such_subscription', 'replay_refused'],
  body: replayRequest,
  preview: replayPreview,
  answer: replayed,
  find: async ({ bus, body }) => await previewReplay(await knownIn(bus, body), bus.subscribers(), body),
  act: async ({ bus, body, by }) =>
    await replay(await knownIn(bus, body), body, by, undefined, bus.subscribers()),
  says: replayPlan,
  reason: ['ledger is back after INC-4411'],
  done: ({ matched, replayed: number }) =>
    `Replayed ${number < matched ? `${count(number)} of ` : ''}${quantity(matched, 'delivery')}.`,
  // The page of an incident shows its replays.
  leads: (_, { incident }) => (incident === undefined ? null : incidentPath(incident)),
  followed: {
    pathOf: replayedPath,
    answer: replayProgress,
    read: async (bus, id) => await readReplay(await bus.database(), id),
    says: replayFar,
    stop: {
      description:
        'What it has not put back stays as it is, and can be replayed later. The rest is delivered.',
      problems: ['replay_ended'],
      example: 'ledger is slow again',
      async act(bus, replayId, how) {
        const done = await stopReplay(await bus.database(), { replayId, ...how });
        if (done === 'ended') throw new Problem('replay_ended');
      },
    },
  },
  command: {
    notes: ['With --per-minute the server puts the deliveries back at that pace. --stop ends it early.'],
    examples: [
      ['replay payment.captured --since 24h', 'the dead letters of the last 24 hours, after confirmation'],
      ['replay payment.captured --since 7d --per-minute 1000 --wait', 'paced, until the last is delivered'],
      [
        'replay --subscriber ledger --since 24h --dry-run',
        'of all topics, to one subscriber: a preview only',
      ],
      ['replay --incident 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77 --wait', 'the dead letters of an incident'],
      [
        'replay --delivery 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.accounting --reason "ledger is back" --yes',
        'one delivery, from a script',
      ],
    ],
    takes: { topic: null },
    options: {
      topic: { value: '<topic>', help: 'the same as the argument' },
      ...CHOOSING,
      incident: {
        value: '<incidentId>',
        help: 'the dead letters of one incident, instead of a topic and --since',
      },
      include: {
        value: '<all|dismissed>',
        help: 'all: delivered events too, which subscribers receive twice; dismissed: only dismissed dead letters',
      },
      limit: { value: '<number>', range: [1, 100_000], help: 'replay at most this many, oldest first' },
      perMinute: {
        name: 'per-minute',
        value: '<number>',
        range: [1, 1_000_000],
        help: 'about this many a minute; by default all at once',
      },
    },
  },
});
