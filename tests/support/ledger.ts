import { isPromise } from '../../lib/platform/time-limit.ts';
import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { BusEvent, DeliveryContext, SubscriberOptions } from '../../lib/bus/subscribers/subscriber.ts';

type Handle = (payment: number, context: DeliveryContext, event: BusEvent<'payment.captured'>) => unknown;

/**
 * Makes a ledger, which is handed captured payments.
 *
 * @param handle what it does with each, by the payment's number.
 */
export const ledger = (handle: Handle = () => undefined, options: SubscriberOptions = {}) =>
  subscriber(
    'ledger',
    {
      'payment.captured': (event, context) => {
        const handled = handle(event.payload.amountMinor, context, event);
        return isPromise(handled) ? handled.then(() => undefined) : undefined;
      },
    },
    options,
  );

/** Fails a delivery, so that it is tried again. */
export const fail = () => {
  throw new Error('the ledger is down');
};

/** Gives a delivery up at once. */
export const refuse = () => {
  throw new PermanentError('refused');
};
