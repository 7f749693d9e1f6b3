import { SMOKE_TEST } from '../bus/catalog/smoke-test.ts';
import { defaultsOf } from '../bus/subscribers/defaults.ts';
import { NotDelivered } from '../bus/subscribers/outcome.ts';
import type {
  AttachedSubscriber,
  BusEvent,
  DeliveryContext,
  Handler,
} from '../bus/subscribers/subscriber.ts';
import { SECOND } from '../platform/time.ts';

/** Shorter than the wait of whoever started the test. */
const LIMIT_MS = 10 * SECOND;

/**
 * Attaches every subscriber to the event of smoke tests, beside its own topics.
 *
 * In this process nothing is done with it. A component elsewhere is sent it like any event, in a batch where it takes
 * batches; a part of it in this process does not matter then. Other options of the subscriber do not hold: the test is sent
 * during an outage too, and says nothing about one.
 */
export function withSmokeTests(attached: readonly AttachedSubscriber[]): readonly AttachedSubscriber[] {
  const names = [...new Set(attached.map(({ name }) => name))];
  const tested = names.map((name) => {
    const parts = attached.filter((part) => part.name === name);
    return takingTests(parts.find(({ place }) => place === 'elsewhere') ?? parts[0]!);
  });
  return [...attached, ...tested];
}

function takingTests({ name, place, host, batch, handlers }: AttachedSubscriber): AttachedSubscriber {
  // A component elsewhere has one handler, which sends any event.
  const [send] = handlers.values();
  const handler = place === 'elsewhere' && send ? testing(send, batch !== null) : () => undefined;
  return {
    ...defaultsOf(place),
    name,
    place,
    host,
    handlers: new Map([[SMOKE_TEST.topic, handler]]),
    transactional: false,
    sharesCommits: false,
    batch: null,
    timeoutMs: LIMIT_MS,
    maxAttempts: SMOKE_TEST.maxAttempts,
    outage: 'off',
    limits: null,
  };
}

function testing(send: Handler, isBatch: boolean) {
  return async (event: BusEvent | readonly BusEvent[], context: Parameters<Handler>[1]): Promise<void> => {
    try {
      const taken = isBatch ? await send([event].flat(), batchOf(context)) : await send(event, context);
      if (taken === 0) throw new NotDelivered('wrong_answer', 'the subscriber took none of one event');
    } catch (error) {
      throw withoutDying(error);
    }
  };
}

type Single = Pick<DeliveryContext, 'deliveryId' | 'attempt' | 'replayed' | 'attemptedAt' | 'signal'>;

function batchOf(context: Parameters<Handler>[1]): Parameters<Handler>[1] {
  if ('deliveries' in context) return context;
  const { deliveryId, attempt, replayed, attemptedAt, signal }: Single = context;
  return { attemptedAt, signal, deliveries: [{ deliveryId, attempt, replayed }] };
}

/** A dead letter would be an incident, and a test leaves none. */
function withoutDying(error: unknown): unknown {
  const isFinal = error instanceof Error && 'code' in error && error.code === 'permanent';
  if (!isFinal) return error;
  const answer = 'answer' in error && { answer: error.answer };
  return Object.assign(new NotDelivered('http_410', error.message, { cause: error }), answer);
}
