import { advanceBackfills } from '../../bus/deliveries/operations/backfill.ts';
import { advanceReplays } from '../../bus/deliveries/operations/paced-replay.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import { advanceErasures } from '../../components/erasures/erase.ts';
import { indexEvents } from '../../components/identifiers/index-events.ts';
import type { SteppedWork } from './keep-stepping.ts';

/** Events are found in the index some seconds after they got their places; until then they are searched one by one. */
export const indexing: SteppedWork = {
  name: 'index of identifiers',
  step: async (db, options) => {
    await indexEvents({ db, ...options });
    return null;
  },
};

const backfills: SteppedWork = {
  name: 'backfills',
  step: (db, { until }) => advanceBackfills(db, until),
};

/** Lists the work that goes on in steps. @param attached the subscribers of this process. */
export function steppedWork(attached: readonly AttachedSubscriber[]): readonly SteppedWork[] {
  return [
    indexing,
    backfills,
    { name: 'erasures', step: (db, { until }) => advanceErasures(db, until) },
    { name: 'paced replays', step: (db, { until }) => advanceReplays(db, { attached, until }) },
  ];
}
