import * as z from 'zod';

import { driverOf, run } from '../../platform/db/statement.ts';
import { html } from '../../platform/markup.ts';
import { instantOf } from '../../platform/time.ts';
import { follower } from '../kit/following.ts';
import type { Followed } from '../kit/following.ts';
import { quantity } from '../kit/words.ts';

/** Says how many dead letters a dismissal of all that match took. */
export const matchingDismissal: Followed = {
  name: 'dismiss-matching',
  follow: follower(z.object({ at: z.iso.datetime('expected an instant') }), async (db, { at }) => {
    const [found] = await run<{ now: number; since: number; dismissed: number }>(driverOf(db), {
      text: DISMISSED,
      values: [at],
    });
    if (!found) return null;
    return {
      tone: 'ok',
      words: html`<b>Dismissed ${quantity(found.dismissed, 'dead letter')}.</b> They are in no count any more,
        and can still be replayed.`,
      isSettled: true,
      since: instantOf(found.since),
      now: instantOf(found.now),
    };
  }),
};

const DISMISSED = `
  select (extract(epoch from clock_timestamp()) * 1000)::float8 as now,
    (extract(epoch from at) * 1000)::float8 as since,
    (select count(*)::int from deliveries where dismissed_at = at) as dismissed
  from operator_actions where at = $1::text::timestamptz and action = 'dismiss' limit 1`;
