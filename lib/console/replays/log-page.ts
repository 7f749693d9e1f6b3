import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { timeAndAgo, timeText } from '../kit/instants.ts';
import { heading, layout, liveness } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import {
  backfilledPath,
  backfillsPath,
  deadLetterPath,
  erasurePath,
  erasuresPath,
  eventPath,
  incidentPath,
  replayedPath,
  replaysPath,
  topicPath,
} from '../kit/links.ts';
import { cursorPager } from '../kit/pager.ts';
import { card, emptyCard, emptyLine, section } from '../kit/sections.ts';
import { subscriberLink } from '../kit/subscriber-link.ts';
import { ACTIONS, table } from '../kit/table.ts';
import { capitalize, count, shortId } from '../kit/words.ts';
import type { OperatorAction, OperatorLog, ReplayRecord } from './read.ts';
import { scopeWords } from './scope.ts';

const REFRESH_SECONDS = 15;

/** Draws the operators' log: replays, then all other actions, with who, when and why. */
export function logPage(view: OperatorLog, context: PageContext): Html {
  const content = html`${heading({
    title: 'Replays',
    lead: html`Who replayed what, and why. Newest first. “Replayed” counts deliveries when they were
      re-queued. <a href="${backfillsPath()}">Backfills</a> and <a href="${erasuresPath()}">erasures</a> have
      pages of their own.`,
    live: liveness(view.generatedAt, REFRESH_SECONDS, context.url),
  })}
  ${filterLine(context)} ${replaysCard(view, context)} ${actionsSection(view)}
  ${cursorPager(view.nextCursor, context.url)}`;
  return layout({ title: 'Replays', section: 'replays', refreshSeconds: REFRESH_SECONDS, content }, context);
}

/** Says what the address leaves out: links and the command line filter the log. */
function filterLine({ url }: PageContext): Html | null {
  const filters = filtersIn(url);
  if (filters.length === 0) return null;
  return html`<div class="filters bar">
    <p class="only small">Showing only: ${filters.join(', ')}. <a href="${replaysPath()}">Show all</a></p>
  </div>`;
}

function filtersIn({ searchParams }: URL): readonly string[] {
  return ['topic', 'subscriber', 'operator', 'since'].flatMap((name) => {
    const value = searchParams.get(name);
    return value ? [`${name} ${value}`] : [];
  });
}

function replaysCard({ replays, generatedAt: now }: OperatorLog, { url }: PageContext): Html {
  if (replays.length === 0) {
    if (filtersIn(url).length > 0) return card(emptyLine('No replays match.'));
    return url.searchParams.has('cursor') ? card(emptyLine('No older replays.')) : noReplays();
  }
  return card(
    table({
      name: 'Replays',
      caption: 'Replays, newest first',
      columns: [
        { label: 'When', look: 'nowrap', cell: ({ requestedAt }) => timeAndAgo(requestedAt, now) },
        {
          label: 'What',
          cell: (replay) =>
            html`<a class="t ${replay.topic !== null && 'mono'}" href="${replayedPath(replay.replayId)}"
                >${nameOf(replay)}</a
              ><span class="s">${scopeWords(replay)}</span>`,
        },
        { label: 'Who', look: 'nowrap', cell: ({ requestedBy }) => requestedBy },
        { label: 'Why', look: 'message', cell: ({ reason }) => reasonOrNone(reason) },
        { label: 'Matched', tone: 'num', cell: ({ matched }) => count(matched) },
        { label: 'Replayed', tone: 'num', cell: ({ replayed }) => count(replayed) },
        { ...ACTIONS, cell: (replay) => detailsLink(replay, now) },
      ],
      rows: replays,
    }),
  );
}

function nameOf({ topic }: ReplayRecord): string {
  return topic ?? 'Selected deliveries';
}

function detailsLink(replay: ReplayRecord, now: string): Html {
  return html`<div class="acts">
    <a class="btn sm quiet" href="${replayedPath(replay.replayId)}"
      >Details<span class="vh">
        of the replay of ${nameOf(replay)} at ${timeText(replay.requestedAt, now)}</span
      ></a
    >
  </div>`;
}

function noReplays(): Html {
  return emptyCard({
    title: 'No replays yet',
    text: 'Each replay of dead letters is listed here, with its operator, reason and outcome.',
  });
}

function actionsSection({ actions, generatedAt }: OperatorLog): Html {
  return section({
    id: 'actions',
    title: 'Other actions',
    hint: 'newest first',
    content: card(
      actions.length === 0 ? emptyLine('No other actions on this page.') : actionTable(actions, generatedAt),
    ),
  });
}

function actionTable(actions: readonly OperatorAction[], now: string): Html {
  return table({
    name: 'Other actions',
    caption: 'Other actions of operators, newest first',
    columns: [
      { label: 'When', look: 'nowrap', cell: ({ at }) => timeAndAgo(at, now) },
      { label: 'What', look: 'nowrap', cell: ({ action }) => capitalize(action.replaceAll('_', ' ')) },
      { label: 'On', look: 'nowrap', cell: target },
      { label: 'Who', look: 'nowrap', cell: ({ operator }) => operator },
      { label: 'Why', look: 'message', cell: ({ reason }) => reasonOrNone(reason) },
    ],
    rows: actions,
  });
}

/** Names a delivery, an event, or a subscriber of one topic or of all. */
function target(action: OperatorAction): Html {
  const { topic, subscriber, deliveryId, eventId, incidentId, replayId, backfillId, renamedTo, erasureId } =
    action;
  const where =
    topic === null ? 'all topics' : html`<a class="mono roomy" href="${topicPath(topic)}">${topic}</a>`;
  const delivery =
    deliveryId !== null &&
    html`, delivery <a class="mono" href="${deadLetterPath(deliveryId)}">${deliveryId}</a>`;
  const event =
    eventId !== null && html`event <a class="mono" href="${eventPath(eventId)}">${shortId(eventId)}</a>`;
  const heir = renamedTo !== null && html`, now ${subscriberLink(renamedTo, topic ?? undefined)}`;
  const replay = replayId !== null && html`, <a href="${replayedPath(replayId)}">replay</a>`;
  const incident = incidentId !== null && html`, <a href="${incidentPath(incidentId)}">incident</a>`;
  const backfill = backfillId !== null && html`, <a href="${backfilledPath(backfillId)}">progress</a>`;
  if (erasureId !== null) return html`<a href="${erasurePath(erasureId)}">a person’s data</a>`;
  return html`${where}<span class="s"
      >${subscriber !== null && html`to ${subscriberLink(subscriber, topic ?? undefined)}`}${heir}${delivery}${event}${incident}${replay}${backfill}</span
    >`;
}

function reasonOrNone(reason: string | null): Child {
  return reason ?? html`<span class="muted">no reason given</span>`;
}
