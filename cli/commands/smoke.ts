import type { List } from '../../lib/console/kit/document.ts';
import { ago } from '../../lib/console/kit/instants.ts';
import { joinNames } from '../../lib/console/kit/words.ts';
import { attachedList, statePhrase, unattachedList, webhookList } from '../../lib/console/smoke/lists.ts';
import type { SmokeSubscriber, SmokeTest, SmokeWebhook } from '../../lib/console/smoke/view.ts';
import { NO_RELAY, outcomeWords, topicWords } from '../../lib/console/smoke/words.ts';
import { SECOND } from '../../lib/platform/time.ts';
import { atMost } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { drawList } from '../draw.ts';
import { unknownName } from '../nearest.ts';
import { followToItsEnd } from '../operation.ts';
import type { Followed } from '../operation.ts';
import { writeItem } from '../outcome.ts';
import type { Pane } from '../terminal.ts';
import { wrapTo } from '../text.ts';

const DEFAULT_SECONDS = 30;

export const command: Command = {
  name: 'smoke',
  summary: 'test a deployment: each webhook endpoint and each attached subscriber',
  usage: ['smoke [<subscriber>] [--timeout <seconds>]'],
  notes: [
    'Sends a signed test webhook to the endpoint of each configured provider, and a test event to each attached subscriber, and shows what arrived where and after what time. Then it lists the subscribers that are not attached, with what waits for them. With a subscriber, it sends the test event to that one alone, and no webhooks.',
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
  const { given, bus } = call;
  atMost(1, given);
  const [subscriber] = given.positionals;
  const seconds = given.wholeNumber('timeout', 1, 600) ?? DEFAULT_SECONDS;
  const { beginSmokeTest, showDeployment, showSmokeTest } = await import('../../lib/console/smoke/routes.ts');
  if (subscriber !== undefined) {
    const { subscribers } = (await bus.ask(showDeployment)).view;
    const names = subscribers.map((one) => one.subscriber);
    if (!names.includes(subscriber)) throw unknownName('subscriber', subscriber, names);
  }
  const { view: begun } = await bus.ask(beginSmokeTest, { body: { subscriber } });
  const parameters = { smokeTestId: begun.test?.smokeTestId ?? '' };
  const smokeTest: Followed<SmokeTest> = {
    isSettled: ({ test }) => test?.state !== 'waiting',
    words: (view) => outcomeWords(tested(view, subscriber)),
    drawEnd: (view, pane) =>
      subscriber === undefined ? write(view, pane) : writeOne(tested(view, subscriber), pane),
    ends: (view) => ({
      isGood:
        subscriber === undefined
          ? view.test?.state === 'arrived'
          : tested(view, subscriber).subscribers.every(({ state }) => state === 'arrived'),
      words: endWords(tested(view, subscriber), seconds),
    }),
  };
  return await followToItsEnd(
    call,
    smokeTest,
    () => bus.ask(showSmokeTest, { parameters }),
    seconds * SECOND,
  );
}

/** What was sent something: of a test of one subscriber, that one alone, whatever else is wrong. */
function tested(view: SmokeTest, subscriber: string | undefined): SmokeTest {
  if (subscriber === undefined) return view;
  const subscribers = view.subscribers.filter((one) => one.subscriber === subscriber);
  return { ...view, webhooks: [], subscribers };
}

function write(view: SmokeTest, pane: Pane): void {
  const part = <Row>(title: string, list: List<Row>) =>
    pane.write(`${pane.paint('bold', title)}\n${drawList(pane, list)}\n`);
  const attached = attachedList(view);
  const unattached = unattachedList(view);
  const origin = view.test?.origin ?? null;
  part(`Webhooks${origin === null ? '' : `, sent to ${origin}`}:`, webhookList(view));
  writeProblems(view.webhooks, pane);
  part('Test event, by attached subscriber:', attached);
  writeProblems(attached.rows, pane);
  if (unattached.rows.length > 0) {
    part('Not attached:', unattached);
    writeAdvice(unattached.rows, pane);
  }
  pane.write(`${wrapTo(pane.columns, topicWords(view))}\n`);
  if (!view.relay.runsHere) pane.write(wrapTo(pane.columns, NO_RELAY));
}

/** Writes what became of a test event to one subscriber. */
function writeOne(view: SmokeTest, pane: Pane): void {
  pane.write(drawList(pane, attachedList(view)));
  writeProblems(view.subscribers, pane);
}

function endWords(view: SmokeTest, seconds: number): string {
  if (view.test?.state !== 'waiting') return outcomeWords(view);
  const { lastPassAt } = view.relay;
  const relay =
    lastPassAt === null
      ? 'no relay has ever run'
      : `the relay’s last run was ${ago(lastPassAt, view.generatedAt)}`;
  return `Not everything was delivered within ${seconds} s: ${relay}. ${outcomeWords(view)}`;
}

/** Writes what is wrong below the table, whole: a column would cut it. */
function writeProblems(tested: readonly (SmokeWebhook | SmokeSubscriber)[], pane: Pane): void {
  const wrong = tested.filter(({ problem }) => problem !== null);
  for (const one of wrong) {
    const name = 'provider' in one ? one.provider : one.subscriber;
    const isBad = statePhrase(one.state).style === 'red';
    writeItem(pane, isBad ? 'bad' : 'doubtful', `${name}: ${one.problem}`);
  }
  if (wrong.length > 0) pane.write('');
}

/** All but those with a wrong variable lack the same two, which are said once. */
function writeAdvice(unattached: readonly SmokeSubscriber[], pane: Pane): void {
  const wrong = unattached.filter(({ toAttach }) => !toAttach?.startsWith('set SUBSCRIBER_'));
  for (const { subscriber, toAttach } of wrong) writeItem(pane, 'bad', `${subscriber}: ${toAttach}`);
  if (wrong.length > 0) pane.write('');
  const inPart = unattached.filter(({ topics }) => topics.attached > 0).map(({ subscriber }) => subscriber);
  const listed =
    inPart.length === 0
      ? ''
      : `; for ${joinNames(inPart)}, which ${inPart.length === 1 ? 'runs' : 'run'} here in part, also _TOPICS (--json lists them)`;
  const words = `To attach one, set SUBSCRIBER_<NAME>_URL and _SECRET${listed}. Until then these deliveries wait, in order.`;
  if (wrong.length < unattached.length) pane.write(`${wrapTo(pane.columns, words)}\n`);
}
