import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { listTable } from '../kit/document.ts';
import type { PageContext } from '../kit/layout.ts';
import { backfillsPath, replaysPath } from '../kit/links.ts';
import { card, emptyLine, section } from '../kit/sections.ts';
import type { Mark } from './chart.ts';
import { actionList } from './lists.ts';
import { SPANS } from './read.ts';
import type { SubscriberHealth } from './read.ts';

/** The places of actions in the charts, between 0 and 1, the oldest first. */
export function placesOf({ actions, intervals, span }: SubscriberHealth): number[] {
  const from = Date.parse(intervals[0]!.startsAt);
  const length = SPANS[span].everyMs * SPANS[span].number;
  return actions.map(({ at }) => (Date.parse(at) - from) / length).toReversed();
}

/** Labels closer than this share of the width would cover each other on a phone. */
const APART = 0.08;

/** The labels of the actions' places: numbers as in the list, where the oldest action is 1. */
export function marksOf(view: SubscriberHealth): Mark[] {
  const groups: { at: number; to: number; first: number; last: number }[] = [];
  for (const [index, at] of placesOf(view).entries()) {
    const group = groups.at(-1);
    if (group && at - group.at < APART) Object.assign(group, { to: at, last: index + 1 });
    else groups.push({ at, to: at, first: index + 1, last: index + 1 });
  }
  return groups.map(({ at, first, last }) => ({
    at,
    words: first === last ? `${first}` : `${first}–${last}`,
  }));
}

/** Lists what operators did, numbered as in the charts. */
export function actionsSection(view: SubscriberHealth, { names }: PageContext): Html {
  return section({
    id: 'actions',
    title: 'Operators’ actions',
    hint: 'newest first, numbered as in the charts',
    content: html`${card(
        view.actions.length === 0
          ? emptyLine('No replays, pauses, resumes, retries, skips or dismissals in this time.')
          : listTable(actionList(view, names)),
      )}
      <p class="muted small note">
        Actions on all subscribers: <a href="${replaysPath()}">the operator log</a>. Its
        <a href="${backfillsPath({ subscriber: view.subscriber })}">backfills</a>.
      </p>`,
  });
}
