import type { EventDelivery, EventView } from '../../lib/console/event/view.ts';
import { duration } from '../../lib/console/kit/instants.ts';
import { failureText } from '../../lib/console/kit/states.ts';
import { joinNames, quantity } from '../../lib/console/kit/words.ts';
import type { SmokeTest } from '../../lib/console/smoke/actions.ts';
import { webhookWords } from '../../lib/console/smoke/follow.ts';
import { SECOND } from '../../lib/platform/time.ts';
import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { EXIT } from '../failure.ts';
import { unknownName } from '../nearest.ts';
import { followToItsEnd } from '../operation.ts';
import type { Followed } from '../operation.ts';
import { writeItem, writeOutcome } from '../outcome.ts';
import type { Pane } from '../terminal.ts';

const DEFAULT_SECONDS = 30;

/** Nobody waits for the next attempt of a delivery that is due later. */
const SOON_MS = 30 * SECOND;

export const command: Command = {
  name: 'smoke',
  summary: 'test a deployment: each webhook endpoint and each attached subscriber',
  usage: ['smoke [<subscriber>] [--timeout <seconds>]'],
  notes: [
    'Sends a signed test webhook to the endpoint of each configured provider, and a test event to each attached subscriber, and shows what arrived. With a subscriber, it sends the test event to that one alone, and no webhooks.',
    'Needs the scopes event-bus:replay and event-bus:read. Exits with 1 if something did not arrive in time, or a variable is wrong. No figure counts the test event; a test webhook is recorded like any other.',
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
  const { given, bus, isJson, terminal } = call;
  atMost(1, given);
  const [subscriber] = given.positionals;
  const seconds = given.wholeNumber('timeout', 1, 600) ?? DEFAULT_SECONDS;
  const [{ beginSmokeTest }, { showEvent }] = await Promise.all([
    import('../../lib/console/smoke/actions.ts'),
    import('../../lib/console/event/views.ts'),
  ]);
  if (subscriber !== undefined) await requireKnown(subscriber, call);
  const { view: test } = await bus.ask(beginSmokeTest.route, { body: { subscriber } });
  if (!isJson)
    for (const webhook of test.webhooks)
      writeItem(terminal.out, webhook.problem === null ? 'good' : 'bad', webhookWords(webhook));
  if (test.subscribers.length === 0) {
    const isGood = failedIn(test).length === 0;
    if (isJson) writeJson(call, { ...test, event: null });
    else writeOutcome(call, isGood, `${outcomeWords(test, null)} No event was sent: ${NOBODY}`);
    return isGood ? EXIT.ok : EXIT.failed;
  }
  const followed: Followed<EventView> = {
    isSettled: ({ deliveries, generatedAt }) => deliveries.every((one) => isSettled(one, generatedAt)),
    words: (view) => outcomeWords(test, view),
    drawEnd: (view, pane) => view.deliveries.forEach((one) => writeDelivery(one, view, pane)),
    ends: (view) => {
      const isSooner = view.deliveries.every((one) => isSettled(one, view.generatedAt));
      const late = isSooner ? '' : `Not everything was delivered within ${seconds} s. `;
      const isGood = failedIn(test).length + missingIn(view).length === 0;
      return { isGood, words: `${late}${outcomeWords(test, view)}` };
    },
  };
  const look = async () => {
    const { json, view } = await bus.ask(showEvent.route, { parameters: { eventId: test.smokeTestId } });
    return { json: { ...test, event: json }, view };
  };
  return await followToItsEnd(call, followed, look, seconds * SECOND);
}

const NOBODY =
  'this deployment does not relay (RELAY=on lets it, if its database is its own), or has no subscriber attached.';

/** @throws Failure for a subscriber that the server does not have, with the nearest name. */
async function requireKnown(subscriber: string, { bus }: Call): Promise<void> {
  const { listSubscribers } = await import('../../lib/console/subscribers/views.ts');
  const names = (await bus.ask(listSubscribers.route)).view.items.map((one) => one.subscriber);
  if (!names.includes(subscriber)) throw unknownName('subscriber', subscriber, names);
}

function isSettled({ state, dismissedAt, nextAttemptAt }: EventDelivery, now: string): boolean {
  const isLater = nextAttemptAt !== null && Date.parse(nextAttemptAt) - Date.parse(now) > SOON_MS;
  return state === 'delivered' || dismissedAt !== null || isLater;
}

function writeDelivery(delivery: EventDelivery, { event }: EventView, pane: Pane): void {
  const { subscriber, state, deliveredAt, lastError, why } = delivery;
  if (deliveredAt !== null)
    return writeItem(
      pane,
      'good',
      `${subscriber} has the event after ${duration(Date.parse(deliveredAt) - Date.parse(event.createdAt))}`,
    );
  const error = lastError === null ? why?.text : failureText(lastError);
  const isWaiting = state === 'pending' && why?.code !== 'backoff';
  writeItem(pane, isWaiting ? 'doubtful' : 'bad', `${subscriber}: ${error ?? 'given up'}`);
}

const failedIn = ({ webhooks }: SmokeTest) =>
  webhooks.filter(({ problem }) => problem !== null).map(({ provider }) => provider);

const missingIn = ({ deliveries }: EventView) =>
  deliveries.filter(({ state }) => state !== 'delivered').map(({ subscriber }) => subscriber);

/** What the test came to, in one sentence, with the names of what did not arrive. @param view null: there is no event. */
function outcomeWords(test: SmokeTest, view: EventView | null): string {
  const sent = test.webhooks.length + test.subscribers.length;
  const missing = [...failedIn(test), ...(view ? missingIn(view) : [])];
  if (sent === 0) return 'Nothing was sent.';
  if (missing.length === 0) return `Everything arrived: ${quantity(sent, 'test')}.`;
  return `${sent - missing.length} of ${quantity(sent, 'test')} arrived; ${joinNames(missing)} did not.`;
}
