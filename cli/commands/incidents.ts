import { edgeWords } from '../../lib/components/incidents/edge-failures.ts';
import type { IncidentReplay, IncidentView } from '../../lib/console/incidents/detail.ts';
import type { Incident } from '../../lib/console/incidents/incident.ts';
import { haltList, laneList, letterList, topicList } from '../../lib/console/incidents/lists.ts';
import {
  leftWords,
  probeWords,
  storyPhrase,
  titleOf,
  whenPhrase,
} from '../../lib/console/incidents/words.ts';
import { actWords } from '../../lib/console/kit/acts.ts';
import type { List } from '../../lib/console/kit/document.ts';
import { timeText } from '../../lib/console/kit/instants.ts';
import { failureText } from '../../lib/console/kit/states.ts';
import { count, countOfLanes, quantity } from '../../lib/console/kit/words.ts';
import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { drawList } from '../draw.ts';
import { EXIT, misused } from '../failure.ts';
import { gather, MOST, moreWords } from '../gather.ts';
import { requireIncidentId } from '../incident-id.ts';
import type { Pane } from '../terminal.ts';
import { hang, wrapTo } from '../text.ts';
import { times } from '../times.ts';

const FILTERS = {
  state: { value: '<state>', help: 'only happening, owed or closed ones' },
  topic: { value: '<topic>', help: 'only this topic' },
  subscriber: { value: '<name>', help: 'only this subscriber' },
};

const LISTED = 50;

const LIST_OPTIONS = {
  ...FILTERS,
  limit: { value: '<number>', help: `how many to list at least (default: ${LISTED})` },
};

export const command: Command = {
  name: 'incidents',
  summary: 'show what goes wrong, one incident for each error',
  usage: ['incidents [options]', 'incidents <incidentId>'],
  notes: [
    'Lists what happens now (lanes are blocked), then what is owed (dead letters are left), then what closed lately. An incident is one error of one subscriber on one topic, or an outage of a subscriber.',
    'With an id, shows its lanes, its dead letters and how its replay gets on.',
  ],
  options: LIST_OPTIONS,
  examples: [
    ['incidents', 'what goes wrong now'],
    ['incidents 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77', 'one incident, and whether its replay is through'],
  ],
  run,
};

async function run(call: Call): Promise<number> {
  const { given } = call;
  atMost(1, given);
  const [id] = given.positionals;
  if (id === undefined) return await list(call);
  for (const name of Object.keys(LIST_OPTIONS)) {
    if (given.text(name) !== undefined) throw misused(`--${name} does not go with the id of one incident.`);
  }
  return await show(call, id);
}

async function list(call: Call): Promise<number> {
  const { given, terminal, isJson, bus } = call;
  const query = {
    state: given.text('state'),
    topic: given.text('topic'),
    subscriber: given.text('subscriber'),
  };
  const { listIncidents } = await import('../../lib/console/incidents/routes.ts');
  const limit = given.wholeNumber('limit', 1, MOST) ?? LISTED;
  const { json, view } = await gather(bus, listIncidents, { limit, lists: ['items'], query });
  if (isJson) {
    writeJson(call, json);
    return EXIT.ok;
  }
  const { out } = terminal;
  const { items, happening, owed, nextCursor, generatedAt: now } = view;
  const totals = `${count(happening)} happening now, ${count(owed)} over with dead letters left.`;
  out.write(wrapTo(out.columns, items.length === 0 ? 'No incidents.' : totals));
  for (const incident of items) out.write(summaryOf(incident, now, out));
  const more = nextCursor === null ? '' : moreWords('There are more', items.length);
  if (items.length > 0) out.write(`\n${out.paint('dim', wrapTo(out.columns, `${more}${times()}`))}`);
  return EXIT.ok;
}

const MARKS = { happening: ['✗', 'red'], owed: ['!', 'yellow'], closed: ['✓', 'green'] } as const;

function summaryOf(incident: Incident, now: string, { paint, columns }: Pane): string {
  const [mark, style] = MARKS[incident.state];
  const { acknowledged, paused } = incident;
  const details = [
    failureText(incident.lastError),
    whenPhrase(incident, now).text,
    probeWords(incident, now),
    paused && 'paused',
  ];
  return [
    `\n${hang(`${paint(style, mark)} `, incident.sentence, columns)}`,
    hang('  ', details.filter(Boolean).join(' · '), columns),
    ...(acknowledged
      ? [hang('  ', `acknowledged by ${acknowledged.by}: ${acknowledged.note}`, columns)]
      : []),
    paint('dim', `  ${incident.incidentId}`),
  ].join('\n');
}

async function show(call: Call, id: string): Promise<number> {
  const { terminal, isJson, bus } = call;
  requireIncidentId(id);
  const { showIncident } = await import('../../lib/console/incidents/routes.ts');
  const { json, view } = await bus.ask(showIncident, { parameters: { incidentId: id } });
  if (isJson) writeJson(call, json);
  else write(view, terminal.out);
  return EXIT.ok;
}

function write(view: IncidentView, pane: Pane): void {
  const { write: line, paint, columns } = pane;
  const { generatedAt: now, lanes, halts, deadLetters, actions, replays } = view;
  line(summaryOf(view, now, pane).trimStart());
  const story = storyPhrase(view);
  if (story !== null) line(`\n${wrapTo(columns, story.text)}`);
  writeList(titleOf('Blocked lanes', lanes.length, view.blockedLanes, countOfLanes), laneList(view), pane);
  writeList('What waits', topicList(view), pane);
  writeList(titleOf('Halted lanes', halts.length, view.haltedLanes, countOfLanes), haltList(view), pane);
  writeList(titleOf('Dead letters', deadLetters.length, view.owed), letterList(view), pane);
  for (const replay of replays) line(`\n${hang('', replayWords(replay, now), columns)}`);
  for (const { at, operator, action, deliveries, reason } of actions)
    line(
      hang(
        '  ',
        `${timeText(at, now)} ${actWords(action, deliveries)} by ${operator}${reason === null ? '' : `: ${reason}`}`,
        columns,
      ),
    );
  line(`\n${paint('dim', [...adviceOf(view), times()].map((advice) => wrapTo(columns, advice)).join('\n'))}`);
}

function writeList<Row>(title: string, list: List<Row>, pane: Pane): void {
  if (list.rows.length > 0) pane.write(`\n${pane.paint('bold', title)}\n${drawList(pane, list)}`);
}

/** `confirmed 00:41, 7 of 7`, or how far the replay is. */
function replayWords(replay: IncidentReplay, now: string): string {
  const { delivered, replayed, confirmedAt, requestedBy, failedAgain } = replay;
  const share = `${count(delivered)} of ${count(replayed)}`;
  const by = `replayed by ${requestedBy} at ${timeText(replay.requestedAt, now)}`;
  if (confirmedAt !== null) return `✓ Confirmed ${timeText(confirmedAt, now)}, ${share}, ${by}`;
  const again = failedAgain.map(({ deliveryId }) => deliveryId).join(', ');
  const left = `${leftWords(replay)}${again && ` (${again})`}`;
  return [`${share} delivered`, left, by].filter(Boolean).join(', ');
}

/** Names the commands that come next. */
function adviceOf({
  incidentId,
  topic,
  subscriber,
  lanes,
  halts,
  owed,
  inCatalog,
  refusesReplays,
  state,
  next,
  lastError,
}: IncidentView): readonly string[] {
  if (edgeWords(lastError.kind)) return [];
  if (subscriber === '') return state === 'closed' ? [] : ['To see and repair it: npx postbud set-aside'];
  if (topic === null)
    return state === 'closed' ? [] : [`To probe it now: npx postbud retry ${subscriber} --wait`];
  if (!inCatalog && state !== 'closed')
    return [`No longer in the catalog: npx postbud retire ${subscriber} --topic ${topic} --reason <text>`];
  const [first] = lanes;
  const [halt] = halts;
  return [
    ...(next !== null && state !== 'owed'
      ? [`It goes on as another: npx postbud incidents ${next.incidentId}`]
      : []),
    ...(first
      ? [
          `Is it fixed? To try one delivery, at no cost: npx postbud probe ${incidentId} --wait`,
          `When it is fixed: npx postbud retry ${incidentId} --wait`,
        ]
      : []),
    ...(owed > 0 && refusesReplays
      ? [
          `${subscriber} refuses replays, because it would act twice. Settle ${quantity(owed, 'dead letter')} another way, then: npx postbud dismiss ${incidentId} --reason <text>`,
        ]
      : []),
    ...(owed > 0 && !refusesReplays
      ? [`To replay ${quantity(owed, 'dead letter')}: npx postbud replay --incident ${incidentId}`]
      : []),
    ...(halt
      ? [
          `To let a lane go on without its dead letter: npx postbud dismiss ${halt.deliveryId} --reason <text>`,
        ]
      : []),
  ];
}
