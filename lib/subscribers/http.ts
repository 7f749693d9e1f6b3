import { createHmac } from 'node:crypto';

import { catalog } from '../catalog/catalog.ts';
import type { Topic } from '../catalog/topic.ts';
import { InvalidConfiguration } from '../config.ts';
import type { RemoteSubscriber } from '../config.ts';
import { traceparent } from '../telemetry/trace.ts';
import { DAY, SECOND } from '../time.ts';
import { PermanentError, RetryAfter } from './outcome.ts';
import { attach, topicsOf } from './subscriber.ts';
import type { AttachedSubscriber, BusEvent, DeliveryContext } from './subscriber.ts';

/**
 * Attaches a component that runs elsewhere, to all topics that the catalog lists it for.
 *
 * It is handed each event as a POST of a CloudEvents 1.0 JSON document, signed as Standard Webhooks does. 2xx is
 * delivered, 410 permanent, 429 and 503 with `Retry-After` wait, everything else is a failure.
 *
 * @throws InvalidConfiguration when the catalog knows no such subscriber.
 * @see https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/http-protocol-binding.md#32-structured-content-mode
 * @see https://www.standardwebhooks.com
 */
export function remoteSubscriber({ name, url, secret }: RemoteSubscriber): AttachedSubscriber {
  const topics = topicsOf(name);
  if (topics.length === 0) {
    const variable = `SUBSCRIBER_${name.toUpperCase()}_URL`;
    const known = [
      ...new Set(Object.values<Topic>(catalog).flatMap(({ subscribers }) => subscribers)),
    ].toSorted();
    throw new InvalidConfiguration(
      variable,
      `the catalog has no subscriber ${name}: write one of ${known.join(', ')}`,
    );
  }
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  const deliver = (event: BusEvent, context: DeliveryContext) => post(url, key, event, context);
  return attach(name, Object.fromEntries(topics.map((topic) => [topic, deliver])), {
    timeoutMs: 15 * SECOND,
  });
}

async function post(
  url: string,
  key: Buffer,
  event: BusEvent,
  { signal, attempt }: DeliveryContext,
): Promise<void> {
  const body = JSON.stringify(cloudEvent(event));
  const timestamp = Math.floor(Date.now() / SECOND);
  // Of this attempt. The document has that of the event, which stays the same.
  const parent = traceparent();
  const signature = createHmac('sha256', key).update(`${event.id}.${timestamp}.${body}`).digest('base64');
  const response = await reach(url, {
    method: 'POST',
    // Followed, a redirect would carry a signed event to an address that nobody configured.
    redirect: 'manual',
    headers: {
      'content-type': 'application/cloudevents+json; charset=utf-8',
      'webhook-id': event.id,
      'webhook-timestamp': String(timestamp),
      'webhook-signature': `v1,${signature}`,
      'x-attempt': String(attempt),
      ...(parent !== null && { traceparent: parent }),
    },
    body,
    signal,
  });
  await response.body?.cancel();
  if (response.ok) return;
  if (response.status === 410) throw new PermanentError('the subscriber answered 410 Gone');
  const waitMs = response.status === 429 || response.status === 503 ? retryAfterMs(response.headers) : null;
  if (waitMs !== null)
    throw new RetryAfter(waitMs, `the subscriber answered ${response.status} with Retry-After`);
  throw new DeliveryRefused(`http_${response.status}`, `the subscriber answered ${response.status}`);
}

/** The subscriber did not take an event; `code` says what it answered, or that it did not. */
class DeliveryRefused extends Error {
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'DeliveryRefused';
    this.code = code;
  }
}

/** What `fetch` says of a connection that failed is "fetch failed"; why is in its cause. */
async function reach(url: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(url, init);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    const { cause } = error;
    const why = cause instanceof Error && 'code' in cause ? String(cause.code) : 'no connection';
    throw new DeliveryRefused('unreachable', `the subscriber can't be reached: ${why}`, { cause: error });
  }
}

/** The event as others on the wire know it. @see https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/spec.md */
export function cloudEvent(event: BusEvent) {
  return {
    specversion: '1.0',
    id: event.id,
    source: `/postbud/${event.producer}`,
    type: event.topic,
    time: event.createdAt.toISOString(),
    datacontenttype: 'application/json',
    sequence: String(event.seq),
    schemaversion: event.version,
    correlationid: event.correlationId,
    ...(event.orderingKey && { partitionkey: event.orderingKey }),
    ...(event.causationId && { causationid: event.causationId }),
    ...(event.traceparent && { traceparent: event.traceparent }),
    data: event.payload,
  };
}

/**
 * RFC 9110, 10.2.3: seconds or a date. A second at least, or a subscriber that says "now" would be asked without a
 * pause; a day at most, or a slip of its would park the lane for good.
 */
function retryAfterMs(headers: Headers): number | null {
  const value = headers.get('retry-after');
  if (!value) return null;
  const ms = /^\d+$/.test(value) ? Number(value) * SECOND : Date.parse(value) - Date.now();
  return Number.isNaN(ms) ? null : Math.min(Math.max(ms, 1 * SECOND), DAY);
}
