import type { AttachedSubscriber } from '../../../lib/bus/subscribers/subscriber.ts';
import { remoteSubscriber } from '../../../lib/components/remote/remote-subscriber.ts';
import { COMPONENTS, SECRET } from './orders.ts';

/** The components of a play, as the bus has them attached. */
export function attached(port: number): AttachedSubscriber[] {
  return COMPONENTS.map(({ name, isBatch }) => {
    const url = `http://127.0.0.1:${port}/${name}`;
    return remoteSubscriber({ name, url, secret: SECRET, isBatch, topics: ['payment.captured'] });
  });
}
