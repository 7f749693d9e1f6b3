import type {
  AttachedSubscriber,
  BatchContext,
  BusEvent,
  DeliveryContext,
  Handler,
} from '../../bus/subscribers/subscriber.ts';
import type { Database } from '../../platform/db/connect.ts';
import { attemptsOf } from './outcomes.ts';
import type { RecordedAttempt } from './outcomes.ts';
import type { Received } from './received.ts';

/** An event that a handler was called with. */
export interface Call extends Pick<Received, 'subscriber' | 'deliveryId' | 'attempt' | 'replayed'> {
  readonly event: BusEvent;
  /** By `performance.now()`. */
  readonly beganAt: number;
  hasEnded: boolean;
  thrown: unknown;
}

/** A delivery handed over more often than this in one drain belongs to a handler that waits 0 ms each time. */
const MOST_CALLS = 100;

/** Records what handlers are called with and how they end, in the order of the calls. */
export class Recorder {
  readonly received: Received[] = [];
  /** Called when a delivery is handed over again and again in one drain. */
  onEndless: (call: Call) => void = () => undefined;
  /** Those of the drain under way, and of earlier ones that have not ended. */
  #calls: Call[] = [];
  /** How often a delivery was handed over in this drain. */
  readonly #counts = new Map<string, number>();
  /** How many attempts of a delivery belong to earlier drains. */
  readonly #known = new Map<string, number>();

  /** Makes the same subscriber with handlers that are recorded. */
  of(subscriber: AttachedSubscriber): AttachedSubscriber {
    const handlers = Array.from(subscriber.handlers, ([topic, handler]) => {
      const recorded: Handler = (given, context) => {
        const calls = callsOf(subscriber.name, given, context);
        this.#add(calls);
        return whenEnded(
          () => handler(given, context),
          (thrown) => {
            for (const call of calls) Object.assign(call, { hasEnded: true, thrown });
          },
        );
      };
      return [topic, recorded] as const;
    });
    return { ...subscriber, handlers: new Map(handlers) };
  }

  #add(calls: readonly Call[]): void {
    this.#calls.push(...calls);
    for (const call of calls) {
      const count = (this.#counts.get(call.deliveryId) ?? 0) + 1;
      this.#counts.set(call.deliveryId, count);
      if (count > MOST_CALLS) this.onEndless(call);
    }
  }

  /** The calls of this drain, and earlier ones that have not ended. */
  get calls(): readonly Call[] {
    return this.#calls;
  }

  /** Ends a drain: reads what the bus has recorded of its calls. @returns them in order. */
  async settle(db: Database): Promise<readonly Received[]> {
    const calls = this.#calls;
    this.#calls = calls.filter(({ hasEnded }) => !hasEnded);
    this.#counts.clear();
    const fresh = new Map<string, RecordedAttempt[]>();
    for (const [deliveryId, attempts] of await attemptsOf(db, [
      ...new Set(calls.map((call) => call.deliveryId)),
    ])) {
      fresh.set(deliveryId, attempts.slice(this.#known.get(deliveryId) ?? 0));
      this.#known.set(deliveryId, attempts.length);
    }
    // From the last call back: what was rolled back is handed over again, so the calls that count are the last.
    const settled = calls.toReversed().map((call) => receivedOf(call, fresh.get(call.deliveryId)?.pop()));
    const received = settled.toReversed();
    this.received.push(...received);
    return received;
  }
}

function callsOf(
  subscriber: string,
  given: BusEvent | readonly BusEvent[],
  context: DeliveryContext | BatchContext,
): Call[] {
  const deliveries = 'deliveries' in context ? context.deliveries : [context];
  const events = 'topic' in given ? [given] : given;
  return events.map((event, index) => {
    const { deliveryId, attempt, replayed } = deliveries[index]!;
    const beganAt = performance.now();
    return { subscriber, event, deliveryId, attempt, replayed, beganAt, hasEnded: false, thrown: undefined };
  });
}

/** Calls a handler as it is, with or without a promise. */
function whenEnded(call: () => unknown, ended: (thrown: unknown) => void): unknown {
  try {
    const returned = call();
    if (returned instanceof Object && 'then' in returned) {
      void Promise.resolve(returned).then(() => ended(undefined), ended);
    } else ended(undefined);
    return returned;
  } catch (error) {
    ended(error);
    throw error;
  }
}

function receivedOf(call: Call, recorded: RecordedAttempt | undefined): Received {
  const { subscriber, event, deliveryId, attempt, replayed, thrown } = call;
  const outcome = recorded?.outcome ?? 'not_counted';
  const error = outcome === 'delivered' ? null : thrown instanceof Error ? thrown : (recorded?.error ?? null);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the relay gives each topic's events its payload
  return { subscriber, event, deliveryId, attempt, replayed, outcome, error } as Received;
}
