import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { mayReplay, reasonField, reasonForm } from '../kit/actions.ts';
import { followingRegion } from '../kit/following.ts';
import { CHECK_ICON, CLOCK_ICON, DEAD_ICON, RETRY_ICON } from '../kit/icons.ts';
import { timeAndAgo, timeToMinute } from '../kit/instants.ts';
import { heading, layout, liveness } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { backfilledPath, backfillsPath, deadLettersPath, topicPath } from '../kit/links.ts';
import { shareBar, stateCount } from '../kit/progress.ts';
import { card, factList, section } from '../kit/sections.ts';
import { subscriberLink } from '../kit/subscriber-link.ts';
import { count } from '../kit/words.ts';
import { backfillFollowing } from './follow.ts';
import type { BackfillProgress } from './read.ts';

const REFRESH_SECONDS = 15;

/** Draws one backfill, how far it is, and the present states of its deliveries. */
export function backfillPage(view: BackfillProgress, context: PageContext): Html {
  const { topic, subscriber, since, generatedAt } = view;
  const following = backfillFollowing(view);
  const content = html`<p class="back"><a href="${backfillsPath()}">← Backfills</a></p>
    ${heading({
      title: html`Backfill of <span class="mono">${topic}</span>`,
      lead: html`To ${subscriberLink(subscriber, topic)}, events since ${timeToMinute(since, generatedAt)}.
      Newer events wait until it has come to them.`,
      live: liveness(generatedAt, REFRESH_SECONDS, context.url),
    })}
    ${followingRegion(following, reviewLink(view))}
    ${progressCard(view, mayReplay(context.operator) && stopForm(view))} ${requestSection(view)}`;
  return layout(
    { title: 'Backfill', section: 'replays', refreshSeconds: REFRESH_SECONDS, following, content },
    context,
  );
}

function reviewLink({ progress, topic, subscriber }: BackfillProgress): Child {
  if (progress.deadLettered === 0) return null;
  return html`<a class="btn" href="${deadLettersPath({ topic, subscriber })}">Review dead letters</a>`;
}

function stopForm({ endedAt, backfillId, matched, written }: BackfillProgress): Child {
  if (endedAt !== null) return null;
  return reasonForm({
    button: 'Stop…',
    path: `${backfilledPath(backfillId)}/stop`,
    text: html`<b>Write no more?</b> What is written is delivered. The other ${count(matched - written)} stay
      unwritten, newer events no longer wait for them, and a later backfill can’t put them before those.`,
    fields: reasonField('for example: the ledger can’t keep up'),
    submit: html`<button class="btn sm">Stop the backfill</button>`,
    isLeft: true,
  });
}

/** Draws the shares in the order of the counts below. */
function progressCard({ progress, matched, written }: BackfillProgress, action: Child): Html {
  const { delivered, pending, failing, deadLettered } = progress;
  const unwritten = Math.max(0, matched - written);
  const label = `${count(delivered)} of ${count(matched)} delivered, ${count(pending)} pending, ${count(failing)} failing, ${count(deadLettered)} dead-lettered, ${count(unwritten)} not written`;
  return html`<div class="card progress">
    ${shareBar({
      label,
      whole: Math.max(matched, written),
      parts: [
        ['ok', delivered],
        ['wait', pending],
        ['fail', failing],
        ['dead', deadLettered],
      ],
    })}
    <dl class="counts">
      ${stateCount('ok', CHECK_ICON, 'delivered', delivered)}
      ${stateCount('', CLOCK_ICON, 'pending', pending)} ${stateCount('fail', RETRY_ICON, 'failing', failing)}
      ${stateCount('dead', DEAD_ICON, 'dead-lettered', deadLettered)}
      ${stateCount('', CLOCK_ICON, 'not written', unwritten)}
    </dl>
    ${action}
  </div>`;
}

function requestSection(view: BackfillProgress): Html {
  const { topic, subscriber, requestedAt, requestedBy, reason, perMinute, endedAt, generatedAt: now } = view;
  const { stopped } = view;
  return section({
    id: 'request',
    title: 'Request',
    content: card(
      factList(
        [
          ['Who', requestedBy],
          ['When', timeAndAgo(requestedAt, now)],
          ['Why', reasonOrNone(reason)],
          ['Topic', html`<a class="mono" href="${topicPath(topic)}">${topic}</a>`],
          ['Subscriber', subscriberLink(subscriber, topic)],
          ['Pace', perMinute === null ? 'as fast as the database can' : `${count(perMinute)} a minute`],
          ['Missing', count(view.matched)],
          ['Written', count(view.written)],
          endedAt !== null && [stopped === null ? 'Ended' : 'Stopped', timeAndAgo(endedAt, now)],
          stopped !== null && ['Stopped by', html`${stopped.by}: ${reasonOrNone(stopped.reason)}`],
          ['Backfill id', html`<span class="mono">${view.backfillId}</span>`],
        ],
        'roomy',
      ),
    ),
  });
}

export function reasonOrNone(reason: string | null): Child {
  return reason ?? html`<span class="muted">no reason given</span>`;
}
