import { ago, duration } from '../../lib/console/kit/instants.ts';
import { count, joinNames } from '../../lib/console/kit/words.ts';
import type { SmokeSubscriber, SmokeTest, SmokeWebhook } from '../../lib/console/smoke/view.ts';
import {
  deliveredAfterMs,
  outcomeWords,
  placeWords,
  recipientWords,
  stateWords,
  topicWords,
} from '../../lib/console/smoke/words.ts';
import { SECOND } from '../../lib/platform/time.ts';
import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { EXIT } from '../failure.ts';
import { follow } from '../follow.ts';
import { writeOutcome } from '../outcome.ts';
import { table } from '../table.ts';
import type { Cell } from '../table.ts';
import type { Pane } from '../terminal.ts';
import { hang, wrapTo } from '../text.ts';

const DEFAULT_SECONDS = 30;

export const command: Command = {
  name: 'smoke',
  summary: 'test a deployment: each webhook endpoint and each attached subscriber',
  usage: ['smoke [--timeout <seconds>]'],
  notes: [
    'Sends a signed test webhook to the endpoint of each configured provider, and a test event to each attached subscriber, and shows what arrived where and after what time. Then it lists the subscribers that are not attached, with what waits for them.',
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
    ['smoke --json --timeout 60', 'for a pipeline'],
  ],
  run,
};

async function run(call: Call): Promise<number> {
  const { given, isJson, bus } = call;
  atMost(0, given);
  const seconds = given.wholeNumber('timeout', 1, 600) ?? DEFAULT_SECONDS;
  const { beginSmokeTest, showSmokeTest } = await import('../../lib/console/smoke/routes.ts');
  const { view: begun } = await bus.ask(beginSmokeTest, { body: {} });
  const smokeTestId = begun.test?.smokeTestId ?? '';
  const { json, view } = await follow(
    call,
    seconds * SECOND,
    () => bus.ask(showSmokeTest, { parameters: { smokeTestId } }),
    {
      isSettled: ({ view: now }) => now.test?.state !== 'waiting',
      words: ({ view: now }) => outcomeWords(now),
    },
  );
  const isGood = view.test?.state === 'arrived';
  if (isJson) writeJson(call, json);
  else write(call, view, seconds);
  return isGood ? EXIT.ok : EXIT.failed;
}

function write(call: Call, view: SmokeTest, seconds: number): void {
  const { out } = call.terminal;
  const unattached = view.subscribers.filter(({ toAttach }) => toAttach !== null);
  const attached = view.subscribers.filter(({ state }) => state !== 'unattached');
  const part = (title: string, content: string) => out.write(`${out.paint('bold', title)}\n${content}\n`);
  const origin = view.test?.origin ?? null;
  part(`Webhooks${origin === null ? '' : `, sent to ${origin}`}:`, webhookTable(view.webhooks, out));
  writeProblems(
    view.webhooks.map(({ provider, ...rest }) => ({ name: provider, ...rest })),
    out,
  );
  part('Test event, by attached subscriber:', subscriberTable(attached, out));
  writeProblems(
    attached.map(({ subscriber, ...rest }) => ({ name: subscriber, ...rest })),
    out,
  );
  if (unattached.length > 0) {
    part('Not attached:', unattachedTable(unattached, view.generatedAt, out));
    writeAdvice(unattached, out);
  }
  out.write(`${wrapTo(out.columns, topicWords(view))}\n`);
  if (!view.relay.runsHere) out.write(wrapTo(out.columns, NO_RELAY));
  writeOutcome(call, view.test?.state === 'arrived', endWords(view, seconds));
}

const NO_RELAY =
  'This deployment does not relay, so no test event was sent: set RELAY=on if its database is its own.';

function endWords(view: SmokeTest, seconds: number): string {
  if (view.test?.state !== 'waiting') return outcomeWords(view);
  const { lastPassAt } = view.relay;
  const relay =
    lastPassAt === null
      ? 'no relay has ever run'
      : `the relay’s last run was ${ago(lastPassAt, view.generatedAt)}`;
  return `Not everything was delivered within ${seconds} s: ${relay}. ${outcomeWords(view)}`;
}

type State = SmokeWebhook['state'] | SmokeSubscriber['state'];

const STYLES: Partial<Record<State, 'green' | 'red' | 'yellow'>> = {
  arrived: 'green',
  failed: 'red',
  misconfigured: 'red',
  waiting: 'yellow',
  paused: 'yellow',
};
const MARKS: Partial<Record<State, string>> = { arrived: '✓ ', failed: '✗ ', misconfigured: '✗ ' };

function stateCell(state: State): Cell {
  const text = `${MARKS[state] ?? '  '}${stateWords(state)}`;
  const style = STYLES[state];
  return style === undefined ? text : { text, style };
}

function webhookTable(webhooks: readonly SmokeWebhook[], pane: Pane): string {
  const columns = [
    { title: 'provider' },
    { title: '  test' },
    { title: 'scheme', leftOut: 'early' },
    { title: 'answer', align: 'right' },
    { title: 'in', align: 'right' },
    { title: 'delivered to', isFlexible: true },
    { title: 'after', align: 'right' },
  ] as const;
  return table(
    pane,
    columns,
    webhooks.map((webhook) => [
      webhook.provider,
      stateCell(webhook.state),
      webhook.scheme ?? '',
      webhook.status === null ? '' : String(webhook.status),
      durationCell(webhook.durationMs),
      recipientWords(webhook),
      durationCell(deliveredAfterMs(webhook)),
    ]),
  );
}

function subscriberTable(subscribers: readonly SmokeSubscriber[], pane: Pane): string {
  const columns = [
    { title: 'subscriber' },
    { title: '  test' },
    { title: 'runs' },
    { title: 'topics', align: 'right' },
    { title: 'after', align: 'right' },
  ] as const;
  return table(
    pane,
    columns,
    subscribers.map(({ subscriber, state, place, topics, afterMs }) => [
      subscriber,
      stateCell(state),
      placeWords(place),
      `${topics.attached} of ${topics.listed}`,
      durationCell(afterMs),
    ]),
  );
}

function unattachedTable(subscribers: readonly SmokeSubscriber[], now: string, pane: Pane): string {
  const columns = [
    { title: 'subscriber' },
    { title: 'topics', align: 'right' },
    { title: 'waiting', align: 'right' },
    { title: 'oldest' },
  ] as const;
  return table(
    pane,
    columns,
    subscribers.map(({ subscriber, topics, waiting: { deliveries, oldestAt } }) => [
      subscriber,
      `${topics.listed - topics.attached} of ${topics.listed}`,
      count(deliveries),
      oldestAt === null ? '' : ago(oldestAt, now),
    ]),
  );
}

const durationCell = (ms: number | null): Cell => (ms === null ? '' : duration(ms));

interface Problem {
  readonly name: string;
  readonly state: State;
  readonly problem: string | null;
}

/** Writes what is wrong below the table, whole: a column would cut it. */
function writeProblems(rows: readonly Problem[], { write: print, paint, columns }: Pane): void {
  const wrong = rows.filter(({ problem }) => problem !== null);
  for (const { name, state, problem } of wrong) {
    const mark = STYLES[state] === 'red' ? paint('red', '✗') : paint('yellow', '!');
    print(hang(`  ${mark} `, `${name}: ${problem}`, columns));
  }
  if (wrong.length > 0) print('');
}

/** All but those with a wrong variable lack the same two, which are said once. */
function writeAdvice(unattached: readonly SmokeSubscriber[], pane: Pane): void {
  const wrong = unattached.filter(({ toAttach }) => !toAttach?.startsWith('set SUBSCRIBER_'));
  writeProblems(
    wrong.map(({ subscriber, toAttach }) => ({ name: subscriber, state: 'failed', problem: toAttach })),
    pane,
  );
  const inPart = unattached.filter(({ topics }) => topics.attached > 0).map(({ subscriber }) => subscriber);
  const listed =
    inPart.length === 0
      ? ''
      : `; for ${joinNames(inPart)}, which ${inPart.length === 1 ? 'runs' : 'run'} here in part, also _TOPICS (--json lists them)`;
  const words = `To attach one, set SUBSCRIBER_<NAME>_URL and _SECRET${listed}. Until then these deliveries wait, in order.`;
  if (wrong.length < unattached.length) pane.write(`${wrapTo(pane.columns, words)}\n`);
}
