import * as z from 'zod';

import type { Database } from '../../db/connect.ts';
import { html } from '../../markup.ts';
import type { Html } from '../../markup.ts';
import type { Follower, Following } from '../page/following.ts';
import { time } from '../page/instants.ts';
import { replayedPath } from '../page/links.ts';
import { count } from '../page/words.ts';
import { readReplay } from './read.ts';
import type { ReplayProgress } from './read.ts';

const replayId = z.uuid();

/** Follows a replay by its id. */
const replay: Follower<Database> = async (db, of) => {
  const progress = replayId.safeParse(of).success ? await readReplay(db, of) : null;
  if (progress === null) return null;
  const following = replayFollowing(progress);
  const link = html`<a href="${replayedPath(of)}">See the replay</a>`;
  return { ...following, words: html`${following.words} ${link}.` };
};

export const replayFollowers = { replay };

/** Says how a replay goes on. It is settled when nothing of it waits for its first attempt. */
export function replayFollowing(view: ReplayProgress): Following {
  const { pending, failing, deadLettered } = view.progress;
  return {
    tone: deadLettered > 0 ? 'dead' : failing > 0 ? 'fail' : pending > 0 ? 'wait' : 'ok',
    words: html`${progressWords(view)}${missedWords(view)}`,
    isSettled: pending === 0,
    since: view.requestedAt,
    now: view.generatedAt,
  };
}

function progressWords({ progress, replayed, lastDeliveredAt, generatedAt }: ReplayProgress): Html {
  const { delivered, failing, pending, deadLettered, replayedAgain } = progress;
  if (replayed === 0) return html`<b>Nothing was replayed.</b>`;
  const last =
    delivered === replayed &&
    lastDeliveredAt !== null &&
    html`, the last at ${time(lastDeliveredAt, generatedAt)}`;
  const rest = [
    deadLettered > 0 && `${count(deadLettered)} dead-lettered again`,
    failing > 0 && `${count(failing)} failed again and will be retried`,
    replayedAgain > 0 && `${count(replayedAgain)} replayed again`,
    pending > 0 && `${count(pending)} waiting`,
  ].filter((part) => part !== false);
  return html`<b>Replayed: ${count(delivered)} of ${count(replayed)} delivered</b
    >${last}${rest.map((part) => `, ${part}`)}.`;
}

function missedWords({ matched, replayed }: ReplayProgress): string {
  const missed = matched - replayed;
  if (missed <= 0) return '';
  return ` ${count(missed)} ${missed === 1 ? 'was' : 'were'} no longer dead-lettered when the replay started.`;
}
