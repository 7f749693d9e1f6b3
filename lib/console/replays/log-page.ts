import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { newBackfill } from '../backfills/form.ts';
import { BACKFILL } from '../backfills/page.ts';
import { listTable } from '../kit/document.ts';
import type { PageContext } from '../kit/layout.ts';
import { listPage, operationTable } from '../kit/operation-pages.ts';
import type { Listed } from '../kit/operation-pages.ts';
import { card, emptyCard, emptyLine, section } from '../kit/sections.ts';
import { actionList } from './lists.ts';
import { REPLAY } from './page.ts';
import type { OperatorLog, ReplayRecord } from './read.ts';
import { nameOf, scopeWords } from './scope.ts';

/** Draws the operators' log: replays, then all other actions, with who, when and why; or one kind of operation alone. */
export function logPage(view: OperatorLog, context: PageContext): Html {
  const { searchParams } = context.url;
  const kind = searchParams.get('only');
  const filters = ['topic', 'subscriber', 'operator', 'since'].flatMap((name) => {
    const value = searchParams.get(name);
    return value ? [`${name} ${value}`] : [];
  });
  const isFiltered = filters.length > 0;
  if (kind === 'backfills')
    return listPage({
      kind: BACKFILL,
      view,
      context,
      lead: 'Deliveries of older events, written later for a subscriber that is new on their topic. Newest first.',
      only: filters,
      content: view.actions.length > 0 ? drawn(view, context) : noBackfills(isFiltered),
      form: newBackfill(context),
    });
  return listPage({
    kind: REPLAY,
    view,
    context,
    lead: html`Who replayed what, and why. Newest first. “Replayed” counts deliveries when they were
    re-queued. Renames and the other actions are listed below.`,
    only: kind ? [kind, ...filters] : filters,
    content: html`${kind !== 'erasures' && replays(view, isFiltered, context)}
    ${kind !== 'replays' && actions(view, context)}`,
  });
}

function noBackfills(isFiltered: boolean): Html {
  return emptyCard({
    title: isFiltered ? 'No backfills match' : 'No backfills yet',
    text: 'Each backfill is listed here, with its operator, its reason and its progress.',
  });
}

function replays(view: OperatorLog, isFiltered: boolean, context: PageContext): Html {
  if (view.replays.length > 0) return operationTable(listedReplays(view), context);
  if (context.url.searchParams.has('cursor') || view.nextCursor !== null)
    return card(emptyLine('No replays on this page.'));
  return isFiltered ? card(emptyLine('No replays match.')) : NO_REPLAYS;
}

function listedReplays({ replays: rows, generatedAt: now }: OperatorLog): Listed<ReplayRecord> {
  return {
    kind: REPLAY,
    rows,
    now,
    id: ({ replayId }) => replayId,
    name: nameOf,
    isName: ({ topic }) => topic !== null,
    scope: scopeWords,
    numbers: [
      ['Matched', ({ matched }) => matched],
      ['Replayed', ({ replayed }) => replayed],
    ],
  };
}

const NO_REPLAYS = emptyCard({
  title: 'No replays yet',
  text: 'Each replay of dead letters is listed here, with its operator, reason and outcome.',
});

function actions(view: OperatorLog, context: PageContext): Html {
  return section({
    id: 'actions',
    title: 'Other actions',
    hint: 'newest first',
    content:
      view.actions.length > 0 ? drawn(view, context) : card(emptyLine('No other actions on this page.')),
  });
}

function drawn({ actions: rows, generatedAt }: OperatorLog, { names }: PageContext): Html {
  return card(listTable(actionList(rows, generatedAt, names)));
}
