import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { mayReplay } from '../kit/actions.ts';
import { CLOCK_ICON } from '../kit/icons.ts';
import { timeAndAgo, timeToMinute } from '../kit/instants.ts';
import type { PageContext } from '../kit/layout.ts';
import { backfilledPath, backfillsPath, topicPath } from '../kit/links.ts';
import { operationPage, reasonOrNone, reviewLink, stopForm } from '../kit/operation-pages.ts';
import type { Kind } from '../kit/operation-pages.ts';
import { operatorText } from '../kit/operator-names.ts';
import { progressCard } from '../kit/progress.ts';
import { subscriberLink } from '../kit/subscriber-link.ts';
import { count } from '../kit/words.ts';
import { backfillFollowing } from './follow.ts';
import type { BackfillProgress } from './read.ts';

export const BACKFILL: Kind = {
  one: 'backfill',
  several: 'Backfills',
  list: backfillsPath(),
  pathOf: backfilledPath,
};

/** Draws one backfill, how far it is, and the present states of its deliveries. */
export function backfillPage(view: BackfillProgress, context: PageContext): Html {
  const { topic, subscriber, since, perMinute, matched, written, progress, endedAt, stopped } = view;
  const now = view.generatedAt;
  const unwritten = Math.max(0, matched - written);
  const card = {
    states: progress,
    of: matched,
    whole: Math.max(matched, written),
    others: [[CLOCK_ICON, 'not written', unwritten]],
    otherWords: `, ${count(unwritten)} not written`,
  } as const;
  return operationPage({
    kind: BACKFILL,
    view,
    context,
    title: html`Backfill of <span class="mono">${topic}</span>`,
    lead: html`To ${subscriberLink(subscriber, topic)}, events since ${timeToMinute(since, now)}. Newer events
    wait until it has come to them.`,
    following: backfillFollowing(view),
    review: reviewLink(progress.deadLettered, { topic, subscriber }),
    progress: progressCard(card, mayReplay(context.operator) && endedAt === null && stop(view)),
    id: view.backfillId,
    facts: [
      ['Topic', html`<a class="mono" href="${topicPath(topic)}">${topic}</a>`],
      ['Subscriber', subscriberLink(subscriber, topic)],
      ['Pace', perMinute === null ? 'as fast as the database can' : `${count(perMinute)} a minute`],
      ['Missing', count(matched)],
      ['Written', count(written)],
      endedAt !== null && [stopped === null ? 'Ended' : 'Stopped', timeAndAgo(endedAt, now)],
      stopped !== null && [
        'Stopped by',
        html`${operatorText(stopped.by, context.names)}: ${reasonOrNone(stopped.reason)}`,
      ],
    ],
  });
}

function stop({ backfillId, matched, written }: BackfillProgress): Child {
  const text = html`<b>Write no more?</b> What is written is delivered. The other ${count(matched - written)}
    stay unwritten, newer events no longer wait for them, and a later backfill can’t put them before those.`;
  return stopForm(BACKFILL, backfillId, text, 'the ledger can’t keep up');
}
