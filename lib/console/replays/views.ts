import { html } from '../../platform/markup.ts';
import { newErasure } from '../erasures/plan.ts';
import type { Doc } from '../kit/doc.ts';
import {
  below,
  inConsole,
  link,
  linked,
  mono,
  muted,
  operatorText,
  pageLinks,
  say,
  subscriberPhrase,
  whenAndAgo,
} from '../kit/document.ts';
import type { List, OperatorNames, Part, Phrase } from '../kit/document.ts';
import {
  backfilledPath,
  deadLetterPath,
  erasurePath,
  eventPath,
  incidentPath,
  replayedPath,
  replaysPath,
  topicPath,
} from '../kit/links.ts';
import { knownIn } from '../kit/known-names.ts';
import { view } from '../kit/view.ts';
import { capitalize, joinNames, quantity, shortId } from '../kit/words.ts';
import { logFilters, logQuery, operatorLog, readOperatorLog } from './log.ts';
import type { LogEntry, OperatorLog } from './log.ts';
import { nameOf, scopeWords } from './scope.ts';

/** Says what operators did, when and why, with the form that begins what no page leads to. */
export function logDoc(shown: OperatorLog, names: OperatorNames): Doc {
  const { items, filters, generatedAt: at, nextCursor } = shown;
  const { only: _, ...others } = filters;
  return {
    title: { html: 'Operations', text: 'Operator log' },
    tab: 'Operations',
    lead: say`Who did what, when and why, newest first. It is kept forever.${below(pageLinks(['#erasure', 'New erasure']))}`,
    section: 'replays',
    at,
    filters: { path: replaysPath(), by: logFilters, values: filters },
    blocks: [
      {
        id: 'list',
        list: entryList(items, at, names),
        empty: {
          title: Object.values(others).some(Boolean) ? 'No entries match' : 'No entries yet',
          text: 'Each action is listed here, with its operator and its reason.',
        },
      },
      { id: 'erasure', title: 'New erasure', hint: 'overwrites a person’s data', drawn: newErasure },
    ],
    nextCursor,
  };
}

/** What operators did. */
export function entryList(rows: readonly LogEntry[], now: string, names: OperatorNames): List<LogEntry> {
  return {
    name: 'Operator log',
    columns: [
      { label: 'When', look: 'nowrap', cell: ({ at }) => whenAndAgo(at, now) },
      { label: 'What', look: 'nowrap', cell: actPhrase },
      { label: 'On', cell: targetPhrase },
      {
        label: 'Who',
        look: 'wrap',
        cell: ({ operator }) => operatorText(operator, names),
      },
      {
        label: 'Why',
        look: 'message',
        cell: ({ reason }) => reason ?? muted('no reason given'),
      },
    ],
    rows,
    idOf,
  };
}

const idOf = ({ replayId, backfillId, erasureId }: LogEntry) => erasureId ?? backfillId ?? replayId ?? '';

/** Names the action, with the way to the page of what it began. */
function actPhrase(entry: LogEntry): Phrase {
  const { action, deliveries, replayId, backfillId, erasureId, isUnderWay } = entry;
  const words =
    deliveries === null
      ? capitalize(action.replaceAll('_', ' '))
      : `Skipped ${quantity(deliveries, 'delivery')}`;
  const path =
    (erasureId !== null && erasurePath(erasureId)) ||
    (backfillId !== null && backfilledPath(backfillId)) ||
    (replayId !== null && replayedPath(replayId));
  return say`${path ? linked(path, words) : words}${isUnderWay && below('under way', ', ')}`;
}

/** Names a delivery, an event, or a subscriber of one topic or of all; of a replay, its scope. */
function targetPhrase(entry: LogEntry): Part {
  const { topic, subscriber, deliveryId, eventId, incidentId, erasureId, subjects, request, recipients } =
    entry;
  if (erasureId !== null) return subjects === null ? 'a person’s data' : mono(joinNames(subjects));
  const where =
    topic === null
      ? request === null
        ? 'all topics'
        : nameOf({ topic, request, recipients })
      : link(topicPath(topic), topic, 'roomy');
  const to = subscriber !== null && say`to ${subscriberPhrase(subscriber)}`;
  const delivery = deliveryId !== null && say`, delivery ${link(deadLetterPath(deliveryId), deliveryId)}`;
  const event =
    eventId !== null &&
    say`${to && ', '}event ${{ ...link(eventPath(eventId), shortId(eventId)), text: eventId }}`;
  const incident =
    incidentId !== null &&
    inConsole(
      html`, <a href="${incidentPath(incidentId)}">${request === null ? 'incident' : 'its page'}</a>`,
    );
  const scope = request === null ? say`${to}${delivery}${event}` : scopeWords({ request, recipients });
  return say`${where}${below(say`${scope}${incident}`)}`;
}

const showLog = view({
  id: 'readOperatorLog',
  path: replaysPath(),
  summary: 'Read the operator log, newest first',
  query: logQuery,
  answer: operatorLog,
  problems: ['validation_failed'],
  handle: async ({ query, bus }) => await readOperatorLog(await knownIn(bus, query), query),
  says: logDoc,
  command: {
    name: 'log',
    summary: 'list what operators did, when and why',
    notes: [
      'The operator log is kept forever. A backfill and a paced replay can be stopped, with backfill --stop <id> and replay --stop <id>. An erasure can’t be.',
    ],
    filters: logFilters,
    list: 'items',
    examples: [
      ['log', 'the newest entries'],
      ['log --topic payment.captured --since 7d', 'those of one topic in the last week'],
      ['log --only backfills', 'which older events were delivered later, and what is under way'],
      ['log --limit 1000 --json | jq .items', 'for a script'],
    ],
  },
});

export const logViews = [showLog];
