import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { listTable } from '../kit/document.ts';
import type { PageContext } from '../kit/layout.ts';
import { listPage, operationTable } from '../kit/operation-pages.ts';
import type { Listed } from '../kit/operation-pages.ts';
import { card, emptyCard, emptyLine, section } from '../kit/sections.ts';
import { actionList } from './lists.ts';
import { REPLAY } from './page.ts';
import type { OperatorLog, ReplayRecord } from './read.ts';
import { nameOf, scopeWords } from './scope.ts';

/** Draws the operators' log: replays, then all other actions, with who, when and why. */
export function logPage(view: OperatorLog, context: PageContext): Html {
  const { searchParams } = context.url;
  const only = ['topic', 'subscriber', 'operator', 'since'].flatMap((name) => {
    const value = searchParams.get(name);
    return value ? [`${name} ${value}`] : [];
  });
  return listPage({
    kind: REPLAY,
    view,
    context,
    lead: html`Who replayed what, and why. Newest first. “Replayed” counts deliveries when they were
    re-queued. Renames and the other actions are listed below.`,
    only,
    content: html`${replays(view, only.length > 0, context)} ${actions(view, context)}`,
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

function actions({ actions: rows, generatedAt }: OperatorLog, { names }: PageContext): Html {
  return section({
    id: 'actions',
    title: 'Other actions',
    hint: 'newest first',
    content: card(
      rows.length === 0
        ? emptyLine('No other actions on this page.')
        : listTable(actionList(rows, generatedAt, names)),
    ),
  });
}
