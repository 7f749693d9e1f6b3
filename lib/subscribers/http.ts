import { createHash, createHmac } from 'node:crypto';

import { subscriberNames } from '../catalog/catalog.ts';
import { InvalidConfiguration } from '../config.ts';
import type { RemoteSubscriber } from '../config.ts';
import { traceparent } from '../trace-context.ts';
import { DAY, SECOND } from '../time.ts';
import { PermanentError, RetryAfter } from './outcome.ts';
import { attach, attachBatches, topicsOf } from './subscriber.ts';
import type { AttachedSubscriber, BatchContext, BusEvent, DeliveryContext } from './subscriber.ts';

/** Of the documents of a batch: what receivers take without being told to. One event may be larger. */
const BATCH_BYTES = 1024 * 1024;

/** What an answer to a batch may have to say fits in there many times. */
const ANSWER_BYTES = 4096;

/**
 * Attaches a component that runs elsewhere, to all topics that the catalog lists it for.
 *
 * It is handed each event as a POST of a CloudEvents 1.0 JSON document, signed as Standard Webhooks does. 2xx is
 * delivered, 410 permanent, 429 and 503 with `Retry-After` wait, everything else is a failure. With `isBatch` it is
 * handed arrays of such documents; 2xx is then all of them, or with `{ "delivered": n }` the first n, and everything
 * else is about the first.
 *
 * @throws InvalidConfiguration when the catalog knows no such subscriber.
 * @see https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/http-protocol-binding.md#32-structured-content-mode
 * @see https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md#4-json-batch-format
 * @see https://www.standardwebhooks.com
 */
export function remoteSubscriber({ name, url, secret, isBatch }: RemoteSubscriber): AttachedSubscriber {
  const topics = topicsOf(name);
  if (topics.length === 0) {
    const variable = `SUBSCRIBER_${name.toUpperCase()}_URL`;
    throw new InvalidConfiguration(
      variable,
      `must have a subscriber of the catalog in its name, not ${name}: ${subscriberNames().join(', ')}`,
    );
  }
  const receiver = { url, key: Buffer.from(secret.replace(/^whsec_/, ''), 'base64') };
  const toAll = <Handler>(handler: Handler) => Object.fromEntries(topics.map((topic) => [topic, handler]));
  const options = { timeoutMs: 15 * SECOND };
  if (!isBatch) {
    const deliver = (event: BusEvent, context: DeliveryContext) => postEvent(receiver, event, context);
    return attach(name, toAll(deliver), options);
  }
  const documents = new Documents();
  const deliver = (events: readonly BusEvent[], context: BatchContext) =>
    postBatch(
      receiver,
      events.map((event) => documents.of(event)),
      events,
      context,
    );
  // The comma between two documents, or the brackets.
  const bytesOf = (event: BusEvent) => Buffer.byteLength(documents.of(event)) + 2;
  return attachBatches(name, toAll(deliver), options, { bytesOf, maxBytes: BATCH_BYTES });
}

interface Receiver {
  readonly url: string;
  /** Signs what is sent. */
  readonly key: Buffer;
}

/** Of events that are measured before they are sent. */
class Documents {
  readonly #known = new WeakMap<BusEvent, string>();

  of(event: BusEvent): string {
    const document = this.#known.get(event) ?? JSON.stringify(cloudEvent(event));
    this.#known.set(event, document);
    return document;
  }
}

async function postEvent(receiver: Receiver, event: BusEvent, context: DeliveryContext): Promise<void> {
  const { signal, attempt } = context;
  const content = {
    type: 'application/cloudevents+json',
    id: event.id,
    body: JSON.stringify(cloudEvent(event)),
  };
  const response = await post(receiver, content, attempt, signal);
  await response.body?.cancel();
}

/** @returns how many of the events the receiver has taken. */
async function postBatch(
  receiver: Receiver,
  documents: readonly string[],
  events: readonly BusEvent[],
  { signal, deliveries }: BatchContext,
): Promise<number> {
  const content = {
    type: 'application/cloudevents-batch+json',
    id: batchId(events),
    body: `[${documents.join(',')}]`,
  };
  const response = await post(receiver, content, deliveries[0]!.attempt, signal);
  return takenOf(await answerOf(response), events.length);
}

/**
 * The same for the same events in the same order, and for no others: who goes by it alone never passes over an event
 * that came in another batch.
 */
function batchId(events: readonly BusEvent[]): string {
  const hash = createHash('sha256');
  for (const { id } of events) hash.update(id);
  return `batch_${hash.digest('base64url').slice(0, 32)}`;
}

/** @throws PermanentError, RetryAfter or DeliveryRefused for an answer that is not 2xx. */
async function post(
  { url, key }: Receiver,
  { type, id, body }: { readonly type: string; readonly id: string; readonly body: string },
  attempt: number,
  signal: AbortSignal,
): Promise<Response> {
  const timestamp = Math.floor(Date.now() / SECOND);
  // Of this attempt. The document has that of the event, which stays the same.
  const parent = traceparent();
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64');
  const response = await reach(url, {
    method: 'POST',
    // Followed, a redirect would carry a signed event to an address that nobody configured.
    redirect: 'manual',
    headers: {
      'content-type': `${type}; charset=utf-8`,
      'webhook-id': id,
      'webhook-timestamp': String(timestamp),
      'webhook-signature': `v1,${signature}`,
      'x-attempt': String(attempt),
      ...(parent !== null && { traceparent: parent }),
    },
    body,
    signal,
  });
  if (response.ok) return response;
  await response.body?.cancel();
  if (response.status === 410) throw new PermanentError('the subscriber answered 410 Gone');
  const waitMs = response.status === 429 || response.status === 503 ? retryAfterMs(response.headers) : null;
  if (waitMs !== null)
    throw new RetryAfter(waitMs, `the subscriber answered ${response.status} with Retry-After`);
  throw new DeliveryRefused(`http_${response.status}`, `the subscriber answered ${response.status}`);
}

/** Reads what was answered to a batch. @returns null where that is not JSON and was not meant to be. */
async function answerOf(response: Response): Promise<unknown> {
  const { text, isWhole } = await beginningOf(response);
  const isJson = /^application\/(?:[\w.+-]+\+)?json\b/i.test(response.headers.get('content-type') ?? '');
  // One that forgets to say that it is JSON may still say how many it took.
  if (text === '' || !(isJson || text.startsWith('{'))) return null;
  if (!isWhole) throw wrongAnswer(`more than ${ANSWER_BYTES} bytes`);
  try {
    return JSON.parse(text);
  } catch {
    throw wrongAnswer('malformed JSON');
  }
}

async function beginningOf(response: Response): Promise<{ text: string; isWhole: boolean }> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  try {
    for await (const chunk of response.body ?? []) {
      chunks.push(chunk);
      bytes += chunk.byteLength;
      if (bytes > ANSWER_BYTES) break;
    }
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw new DeliveryRefused('unreachable', 'the connection was lost in the middle of the answer', {
      cause: error,
    });
  }
  return { text: Buffer.concat(chunks).toString('utf8').trim(), isWhole: bytes <= ANSWER_BYTES };
}

function takenOf(answer: unknown, handed: number): number {
  if (typeof answer !== 'object' || answer === null || !('delivered' in answer)) return handed;
  const { delivered } = answer;
  if (typeof delivered === 'number' && Number.isInteger(delivered) && delivered >= 0 && delivered <= handed)
    return delivered;
  const what = typeof delivered === 'number' ? `${delivered}` : `a ${typeof delivered}`;
  throw wrongAnswer(`"delivered": ${what}, to ${handed} events`);
}

function wrongAnswer(what: string): DeliveryRefused {
  const example = '{ "delivered": 2 } for the first two, or no body for all';
  return new DeliveryRefused('wrong_answer', `the subscriber answered ${what}: answer ${example}`);
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
