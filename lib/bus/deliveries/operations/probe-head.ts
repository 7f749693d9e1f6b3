import type { Database } from '../../../platform/db/connect.ts';
import { run } from '../../../platform/db/statement.ts';
import { NotActedOn } from '../refusals.ts';
import { acting, onFirstOfLane, withAction } from './first-of-lane.ts';
import type { ActedOn, Asked } from './first-of-lane.ts';

/**
 * Makes one attempt of the delivery that holds a lane due now, which costs nothing, and records the operator. If it fails,
 * the number of attempts and the time of the next one stay as they are. The last entry of the delivery's log says so to the
 * relay, so what another operator does before the attempt takes the place of the probe.
 *
 * @throws NotActedOn also where the subscriber is paused, or is in an outage, which has a probe of its own (`probe.ts`).
 */
export async function probeHead(db: Database, asked: Asked): Promise<ActedOn> {
  return await onFirstOfLane(db, asked, async (tx, { topic, subscriber, values }) => {
    const [held] = await run<{ is_paused: boolean; is_silent: boolean }>(tx, {
      text: HELD,
      values: [topic, subscriber],
    });
    if (held!.is_paused) throw new NotActedOn('paused', `${subscriber} is paused. Resume it first.`);
    if (held!.is_silent)
      throw new NotActedOn(
        'outage',
        `${subscriber} does not answer, and its deliveries wait for that without a cost. Probe ${subscriber} instead.`,
      );
    const probed = await run(tx, { text: PROBE_HEAD, values });
    if (probed.length === 0) throw new NotActedOn('not_waiting');
  });
}

const HELD = `
  select exists (select from pauses where subscriber = $2::text and topic in ('', $1::text)) as is_paused,
    exists (select from outages where subscriber = $2::text) as is_silent`;

const PROBE_HEAD = acting(
  'probe',
  `
  acted as (
    update exceptions set next_attempt_at = clock.now,
      attempt_log = ${withAction('probed', `, 'keeps', next_attempt_at`)}
    from clock
    where lane = $1::int and position = $2::bigint and next_attempt_at > clock.now
    returning lane, ordering_key
  )`,
);
