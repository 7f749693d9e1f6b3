import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { timeAndAgo } from '../kit/instants.ts';
import { backfillsPath, deadLetterPath, replayedPath, replaysPath, topicPath } from '../kit/links.ts';
import { card, emptyLine, section } from '../kit/sections.ts';
import { table } from '../kit/table.ts';
import { capitalize } from '../kit/words.ts';
import type { Mark } from './chart.ts';
import { SPANS } from './read.ts';
import type { HealthAction, SubscriberHealth } from './read.ts';

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
export function actionsSection({ actions, generatedAt, subscriber }: SubscriberHealth): Html {
  return section({
    id: 'actions',
    title: 'Operators’ actions',
    hint: 'newest first, numbered as in the charts',
    content: html`${card(
        actions.length === 0
          ? emptyLine('No replays, pauses, resumes, retries, skips or dismissals in this time.')
          : table({
              name: 'Operators’ actions',
              caption: 'Operators’ actions, numbered as in the charts, newest first',
              columns: [
                { label: 'No.', tone: 'num', cell: ({ number }) => number },
                { label: 'When', look: 'nowrap', cell: ({ at }) => timeAndAgo(at, generatedAt) },
                { label: 'What', look: 'nowrap', cell: whatCell },
                { label: 'On', cell: target },
                { label: 'Who', look: 'nowrap', cell: ({ operator }) => operator },
                { label: 'Why', look: 'message', cell: ({ reason }) => reason ?? NO_REASON },
              ],
              rows: actions.map((action, index) => ({ ...action, number: actions.length - index })),
            }),
      )}
      <p class="muted small note">
        Actions on all subscribers: <a href="${replaysPath()}">the operator log</a>. Its
        <a href="${backfillsPath({ subscriber })}">backfills</a>.
      </p>`,
  });
}

const NO_REASON = html`<span class="muted">no reason given</span>`;

function whatCell({ action, replayId }: HealthAction): Child {
  const what = capitalize(action.replaceAll('_', ' '));
  return replayId === null ? what : html`<a href="${replayedPath(replayId)}">${what}</a>`;
}

function target({ topic, deliveryId, replayId }: HealthAction): Html {
  const none = replayId === null ? 'all its topics' : 'chosen deliveries';
  const where = topic === null ? none : html`<a class="mono roomy" href="${topicPath(topic)}">${topic}</a>`;
  return html`${where}${
    deliveryId !== null &&
    html`<span class="s"
      >delivery <a class="mono roomy" href="${deadLetterPath(deliveryId)}">${deliveryId}</a></span
    >`
  }`;
}
