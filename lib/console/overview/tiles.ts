import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { CHECK_ICON, CLOCK_ICON, DEAD_ICON, RELAY_ICON, RETRY_ICON } from '../kit/icons.ts';
import { age, ago, until } from '../kit/instants.ts';
import { deadLettersPath } from '../kit/links.ts';
import { count, percentage, quantity } from '../kit/words.ts';
import { isLate } from './attention.ts';
import type { Overview } from './read.ts';
import { wideSpark } from './spark.ts';

/** Draws the numbers of deliveries over all topics, and the relay's health. */
export function tiles(view: Overview): Html {
  const { totals, relay, hours, generatedAt } = view;
  const { pending, failing, deadLettered } = totals.deliveries;
  return html`<h2 class="vh">Deliveries of all topics</h2>
    <dl class="tiles">
      ${tile('', CLOCK_ICON, 'Pending deliveries', count(pending), oldestDue(view))}
      ${tile(failing > 0 ? 'fail' : '', RETRY_ICON, 'Failing deliveries', count(failing), nextRetry(view))}
      ${tile(
        deadLettered > 0 ? 'dead' : '',
        DEAD_ICON,
        'Dead letters',
        deadLettered > 0 ? html`<a href="${deadLettersPath()}">${count(deadLettered)}</a>` : '0',
        deadLettered > 0 ? `of ${quantity(totals.deadLettered, 'event')}` : 'none',
      )}
      ${relayTile(relay, generatedAt)}
      <div class="tile wide">
        <dt>${CHECK_ICON}Delivered, last 24 h</dt>
        <dd class="big">${count(Math.max(0, totals.deliveredLast24h - totals.replaysLast24h.delivered))}</dd>
        <dd class="sub">${delivered(view)}</dd>
        <dd class="g">${wideSpark(hours.delivered)}</dd>
      </div>
    </dl>`;
}

const RELAY_STATES = {
  running: { tone: 'ok', words: 'Running' },
  stalled: { tone: 'dead', words: 'Stalled' },
  never_run: { tone: 'dead', words: 'Never run' },
} as const;

function relayTile(
  { state, lastPassAt, lagSeconds, runsHere }: Overview['relay'],
  generatedAt: string,
): Html {
  const { tone, words } = RELAY_STATES[state];
  const lag = lagSeconds > 0 ? `${age(lagSeconds)} behind` : 'nothing due';
  const lastRun = lastPassAt === null ? [] : [`last run ${ago(lastPassAt, generatedAt)}`];
  return tile(
    tone,
    RELAY_ICON,
    'Relay',
    words,
    [...lastRun, runsHere ? lag : 'not by this deployment'].join(', '),
  );
}

function oldestDue({ topics }: Overview): Child {
  const ages = topics.flatMap(({ oldestDueAgeSeconds }) => oldestDueAgeSeconds ?? []);
  if (ages.length === 0) return 'none due';
  const oldest = Math.max(...ages);
  return isLate(oldest)
    ? html`oldest due <span class="fail-t">${age(oldest)}</span>`
    : `oldest due ${age(oldest)}`;
}

function nextRetry({ topics, totals, generatedAt }: Overview): string {
  if (totals.deliveries.failing === 0) return 'none';
  const next = topics.flatMap(({ nextRetryAt }) => nextRetryAt ?? []).toSorted()[0];
  return next === undefined ? 'retry due or paused' : `next retry ${until(next, generatedAt)}`;
}

/** The share of delivered ones among those that ended. Replays are told apart: theirs were dead letters already. */
function delivered({ totals, hours }: Overview): string {
  const { deliveredShareLast24h: share, replaysLast24h: replays } = totals;
  const died = hours.deadLettered.reduce((sum, number) => sum + number, 0) - replays.deadLettered;
  const dead = `${died > 0 ? count(died) : 'none'} dead-lettered`;
  const words = share === null ? 'none yet' : `${percentage(share)}, ${dead}`;
  return replays.delivered === 0 ? words : `${words}, ${count(replays.delivered)} by replay`;
}

function tile(tone: string, icon: Html, name: string, big: Child, sub: Child): Html {
  return html`<div class="tile ${tone}">
    <dt>${icon}${name}</dt>
    <dd class="big">${big}</dd>
    <dd class="sub">${sub}</dd>
  </div>`;
}
