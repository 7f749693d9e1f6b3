import { subscriberNames } from '../../bus/catalog/catalog.ts';
import type { Subscriber } from '../../bus/catalog/catalog.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import { remoteSubscriber } from '../../components/remote/remote-subscriber.ts';
import { SIGNING_SECRET } from '../../platform/schemes/signing.ts';
import { requireKnown } from './known.ts';

interface ElsewhereOptions {
  /** One of the secrets that the receiver verifies with. */
  readonly secret: string;
  /** Whether it receives its events in batches, as with `SUBSCRIBER_<NAME>_BATCH=on`. */
  readonly batch?: boolean;
}

/**
 * Attaches the receiver of a component that runs elsewhere to a test bus. It gets the requests that the bus would send it,
 * signed and in order, without a network.
 *
 * @param receive from a request to its answer, as `receiver` of `postbud/receive` makes it.
 * @throws TypeError for a component that the catalog does not have, and for a secret that signs nothing.
 */
export function elsewhere(
  name: Subscriber,
  receive: (request: Request) => Promise<Response>,
  { secret, batch }: ElsewhereOptions,
): AttachedSubscriber {
  requireKnown('subscriber', name, subscriberNames());
  if (!SIGNING_SECRET.test(secret))
    throw new TypeError('secret: expected whsec_ and base64, one of the secrets of the receiver');
  const component = { name, url: 'https://receiver.invalid/', secret, isBatch: batch };
  return remoteSubscriber(component, (url, init) => receive(new Request(url, init)));
}
