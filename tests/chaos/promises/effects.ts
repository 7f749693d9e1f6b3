import { timesDelivered } from '../reading.ts';
import type { Reading } from '../reading.ts';
import type { Violation } from './promises.ts';

/** Promise 4: as many effects as the delivery was marked delivered, which is more than once after a replay. */
export function* exactlyOnce(read: Reading): Generator<Violation> {
  const effects = new Map<string, number>();
  for (const { eventId, subscriber } of read.history.effects) {
    const key = `${eventId} ${subscriber}`;
    effects.set(key, (effects.get(key) ?? 0) + 1);
  }
  for (const { eventId, laneId, limits, versions } of read.deliveries.values()) {
    if (!limits.transactional) continue;
    const subscriber = limits.name;
    const key = `${eventId} ${subscriber}`;
    const found = effects.get(key) ?? 0;
    effects.delete(key);
    const times = timesDelivered(versions);
    if (found === times) continue;
    const what = `it was delivered to ${subscriber} ${times} times and had its effect ${found} times`;
    yield { rule: 'effects', what, about: { eventId, laneId, subscriber } };
  }
  for (const key of effects.keys()) {
    const [eventId = '', subscriber = ''] = key.split(' ');
    yield {
      rule: 'effects',
      what: `${subscriber} had an effect without a delivery`,
      about: { eventId, subscriber },
    };
  }
}
