import type { EventDelivery } from '../../lib/console/event/view.ts';
import { showEvent } from '../../lib/console/event/views.ts';
import { beginSmokeTest, leftOutWords, startedWords } from '../../lib/console/smoke/actions.ts';
import { SECOND } from '../../lib/platform/time.ts';
import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { EXIT } from '../arguments.ts';
import { followToItsEnd } from '../follow.ts';
import { writeOutcome } from '../draw.ts';

const DEFAULT_SECONDS = 30;

/** Nobody waits for the next attempt of a delivery that is due later. */
const SOON_MS = 30 * SECOND;

export const command: Command = {
  name: 'smoke',
  summary: 'test a deployment: send a test event to each attached subscriber',
  usage: ['smoke [<subscriber>] [--timeout <seconds>]'],
  notes: [
    'Sends a test event to each attached subscriber, or to one alone, and says who has it, or why not.',
    'Needs the scopes event-bus:replay and event-bus:read. Exits with 1 if it did not arrive everywhere in time. No figure counts it.',
  ],
  options: {
    timeout: {
      value: '<seconds>',
      help: `how long to wait for everything to arrive (default: ${DEFAULT_SECONDS})`,
    },
  },
  examples: [
    ['smoke', 'after a deployment'],
    ['smoke ledger', 'a test event to the ledger alone'],
    ['smoke --json --timeout 60', 'for a pipeline'],
  ],
  run,
};

async function run(call: Call): Promise<number> {
  const { given, bus, isJson } = call;
  atMost(1, given);
  const [subscriber] = given.positionals;
  const limitMs = (given.wholeNumber('timeout', 1, 600) ?? DEFAULT_SECONDS) * SECOND;
  const { view: test } = await bus.ask(beginSmokeTest.route, { body: { subscriber } });
  const { smokeTestId: eventId, subscribers, paused } = test;
  if (subscribers.length === 0) {
    if (isJson) writeJson(call, { ...test, event: null });
    else writeOutcome(call, true, startedWords(test));
    return EXIT.ok;
  }
  const look = async () => {
    const { json, view } = await bus.ask(showEvent.route, { parameters: { eventId } });
    return { json: { ...test, event: json }, view };
  };
  return await followToItsEnd(call, limitMs, look, ({ verdict, deliveries, generatedAt: now }) => ({
    words: verdict + leftOutWords(paused),
    isOver: deliveries.every((one) => isSettled(one, now)),
    isGood: deliveries.every(({ state }) => state === 'delivered'),
  }));
}

function isSettled({ state, dismissedAt, nextAttemptAt }: EventDelivery, now: string): boolean {
  const isLater = nextAttemptAt !== null && Date.parse(nextAttemptAt) - Date.parse(now) > SOON_MS;
  return state === 'delivered' || dismissedAt !== null || isLater;
}
