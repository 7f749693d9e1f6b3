import * as z from 'zod';

import { html } from '../../platform/markup.ts';
import { say, strong, when } from '../kit/document.ts';
import type { Phrase } from '../kit/document.ts';
import { follower } from '../kit/following.ts';
import type { Followed, Following } from '../kit/following.ts';
import { replayedPath } from '../kit/links.ts';
import { operatorText } from '../kit/operator-names.ts';
import type { OperatorNames } from '../kit/operator-names.ts';
import { count, numbers, quantity } from '../kit/words.ts';
import { readReplay } from './read.ts';
import type { ReplayProgress } from './read.ts';

const replay = z.object({ replayId: z.uuid('expected the id of a replay') });

/** Follows a replay. */
export const followedReplay: Followed = {
  name: 'replay',
  follow: follower(replay, async (db, { replayId }, names) => {
    const progress = await readReplay(db, replayId);
    if (progress === null) return null;
    const following = replayFollowing(progress, names);
    const link = html`<a href="${replayedPath(replayId)}">See the replay</a>`;
    return { ...following, words: html`${following.words} ${link}.` };
  }),
};

/** Says how a replay goes on. It is settled when nothing of it waits for its first attempt. */
export function replayFollowing(view: ReplayProgress, names: OperatorNames): Following {
  const { pending, failing, deadLettered } = view.progress;
  const isWaiting = pending > 0 || isUnderWay(view);
  return {
    tone: deadLettered > 0 ? 'dead' : failing > 0 ? 'fail' : isWaiting ? 'wait' : 'ok',
    words: replayWords(view, names).html,
    isSettled: !isWaiting,
    since: view.requestedAt,
    now: view.generatedAt,
  };
}

/** Says how far it is, and what became of its deliveries. */
export function replayWords(view: ReplayProgress, names: OperatorNames): Phrase {
  return say`${progressWords(view)}${paceWords(view, names)}${missedWords(view)}`;
}

/** Whether a paced replay still puts deliveries back. */
export function isUnderWay({ pace }: ReplayProgress): boolean {
  return pace !== null && pace.endedAt === null;
}

function paceWords({ pace, generatedAt: now }: ReplayProgress, names: OperatorNames): Phrase | null {
  if (pace === null) return null;
  const { left, perMinute, passedOver, endsAt, stopped } = pace;
  const rest =
    stopped !== null
      ? say` ${operatorText(stopped.by, names)} stopped it at ${when(stopped.at, now)}: ${quantity(left, 'delivery')} ${left === 1 ? 'was' : 'were'} not put back.`
      : left > 0 &&
        endsAt !== null &&
        say` ${count(left)} left to put back, ${count(perMinute)} a minute, until about ${when(endsAt, now)}.`;
  const passed =
    passedOver > 0 &&
    ` ${count(passedOver)} passed over: replayed, dismissed or pruned meanwhile, or refused by the handler.`;
  return say`${rest}${passed}`;
}

function progressWords(view: ReplayProgress): Phrase {
  const { progress, replayed, lastDeliveredAt, generatedAt } = view;
  const { delivered } = progress;
  if (replayed === 0) return strong(`Nothing was replayed${isUnderWay(view) ? ' yet' : ''}.`);
  const last =
    delivered === replayed &&
    lastDeliveredAt !== null &&
    say`, the last at ${when(lastDeliveredAt, generatedAt)}`;
  const rest = undelivered(view).map((part) => `, ${part}`);
  return say`${strong(`Replayed: ${count(delivered)} of ${count(replayed)} delivered`)}${last}${rest.join('')}.`;
}

/** Says what became of those that have not been delivered. */
function undelivered({ progress }: ReplayProgress): readonly string[] {
  const { failing, pending, deadLettered, replayedAgain } = progress;
  return numbers([
    [deadLettered, 'dead-lettered again'],
    [failing, 'failed again and will be retried'],
    [replayedAgain, 'replayed again'],
    [pending, 'waiting'],
  ]);
}

function missedWords({ matched, replayed, pace }: ReplayProgress): string {
  if (pace !== null) return '';
  const missed = matched - replayed;
  if (missed <= 0) return '';
  return ` ${count(missed)} ${missed === 1 ? 'was' : 'were'} no longer dead-lettered when the replay started.`;
}
