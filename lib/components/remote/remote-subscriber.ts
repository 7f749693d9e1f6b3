import { createHash } from 'node:crypto';

import { personalTexts } from '../../bus/catalog/personal-data.ts';
import { NotDelivered, PermanentError, RetryAfter } from '../../bus/subscribers/outcome.ts';
import { attach, attachBatches, topicsOf } from '../../bus/subscribers/subscriber.ts';
import type {
  AttachedSubscriber,
  BatchContext,
  BusEvent,
  DeliveryContext,
  PreviousEvent,
} from '../../bus/subscribers/subscriber.ts';
import { beginningOf, refusalIn } from '../../platform/answer.ts';
import type { RemoteSubscriber } from '../../platform/config.ts';
import { saidIn } from '../../platform/said.ts';
import { signedHeaders, signingKey } from '../../platform/schemes/signing.ts';
import { DAY, SECOND } from '../../platform/time.ts';
import { traceparent } from '../../platform/trace-context.ts';
import { cloudEvent, Documents, PREVIOUS_BYTES } from './cloud-event.ts';

/** Most bytes of a batch's documents: receivers accept this much by default. A single event may be larger. */
const BATCH_BYTES = 1024 * 1024;

/** Most bytes of an answer to a batch: many times the size of a count. */
const ANSWER_BYTES = 4096;

/**
 * Attaches a component that runs elsewhere to the topics that it names, or to all that the catalog lists it for.
 *
 * It receives each event as a POST of a CloudEvents 1.0 JSON document, signed according to Standard Webhooks. 2xx means
 * delivered, 410 permanently failed, 429 and 503 with `Retry-After` wait; any other answer is a failure. With `isBatch`
 * it receives arrays of such documents. 2xx then means all of them, or the first n with `{ "delivered": n }`; any other
 * answer applies to the first event. What a refusal says is kept with the attempt.
 *
 * @param send in place of `fetch`: a test has the receiver in its own process.
 * @throws TypeError for a topic that the catalog does not list the component for.
 * @see https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/bindings/http-protocol-binding.md#32-structured-content-mode
 * @see https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md#4-json-batch-format
 * @see https://www.standardwebhooks.com
 */
export function remoteSubscriber(
  component: RemoteSubscriber,
  send: Send = (url, init) => fetch(url, init),
): AttachedSubscriber {
  const { name, url, secret, isBatch, outage, topics = topicsOf(component.name) } = component;
  const receiver = { url, key: signingKey(secret), send };
  const toAll = <Handler>(handler: Handler) => Object.fromEntries(topics.map((topic) => [topic, handler]));
  const options = { place: 'elsewhere', host: new URL(url).host, outage } as const;
  if (!isBatch) {
    const deliver = (event: BusEvent, context: DeliveryContext & PreviousOfEvent) =>
      postEvent(receiver, event, context);
    return attach(name, toAll(deliver), options);
  }
  const documents = new Documents();
  const deliver = (events: readonly BusEvent[], context: BatchContext & PreviousOfBatch) =>
    postBatch(
      receiver,
      events.map((event, index) => documents.of(event, context.previous?.[index])),
      events,
      context,
    );
  // Two more for the comma between two documents, or the brackets.
  const bytesOf = (event: BusEvent) => Buffer.byteLength(documents.of(event)) + PREVIOUS_BYTES + 2;
  return attachBatches(name, toAll(deliver), options, { bytesOf, maxBytes: BATCH_BYTES });
}

interface PreviousOfEvent {
  readonly previous?: PreviousEvent | null;
}

interface PreviousOfBatch {
  readonly previous?: readonly (PreviousEvent | null)[];
}

/** Sends a request, as `fetch` does. */
type Send = (url: string, init: RequestInit) => Promise<Response>;

interface Receiver {
  readonly url: string;
  /** Signs the requests. */
  readonly key: Buffer;
  readonly send: Send;
}

async function postEvent(
  receiver: Receiver,
  event: BusEvent,
  { signal, attempt, previous = null }: DeliveryContext & PreviousOfEvent,
): Promise<void> {
  const content = {
    type: 'application/cloudevents+json',
    id: event.id,
    body: JSON.stringify(cloudEvent(event, previous)),
  };
  const response = await post(receiver, content, [event], attempt, signal);
  await response.body?.cancel();
}

/** @returns how many of the events the receiver took, counted from the first. */
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
  const response = await post(receiver, content, events, deliveries[0]!.attempt, signal);
  return takenOf(await answerOf(response), events.length);
}

/**
 * Gives a batch's id: the same for the same events in the same order, and for no others. A receiver that skips known
 * batches by it never skips an event that came in another batch.
 */
function batchId(events: readonly BusEvent[]): string {
  const hash = createHash('sha256');
  for (const { id } of events) hash.update(id);
  return `batch_${hash.digest('base64url').slice(0, 32)}`;
}

/** Sends a request. @throws PermanentError, RetryAfter or NotDelivered for an answer that is not 2xx. */
async function post(
  { url, key, send }: Receiver,
  { type, id, body }: { readonly type: string; readonly id: string; readonly body: string },
  events: readonly BusEvent[],
  attempt: number,
  signal: AbortSignal,
): Promise<Response> {
  // The header is this attempt's. The document has the event's, which stays the same.
  const parent = traceparent();
  const response = await reach(send, url, {
    method: 'POST',
    // Not followed: a redirect would send a signed event to an address that nobody configured.
    redirect: 'manual',
    headers: {
      'content-type': `${type}; charset=utf-8`,
      ...signedHeaders(key, id, body),
      'x-attempt': String(attempt),
      ...(parent !== null && { traceparent: parent }),
    },
    body,
    signal,
  });
  if (response.ok) return response;
  // An answer to a batch may repeat any of its events.
  const known = events.flatMap(({ topic, payload, version }) => personalTexts(topic, payload, version));
  const answer = await refusalIn(response, known);
  throw Object.assign(refusalOf(response, answer), { answer });
}

function refusalOf({ status, headers }: Response, answer: string | null): Error {
  const said = saidIn(answer);
  const answered = `the subscriber answered ${status}`;
  const message = said === null ? answered : `${answered}: ${said}`;
  if (status === 410) return new PermanentError(said === null ? `${answered} Gone` : message);
  const waitMs = status === 429 || status === 503 ? retryAfterMs(headers) : null;
  // Its package postbud is older than the event's payload: it asks to wait, as with `RetryAfter`.
  if (waitMs !== null && saysTooOld(answer)) return Object.assign(tooOld(), { ms: waitMs });
  if (waitMs !== null)
    return new RetryAfter(waitMs, `${answered} with Retry-After${said === null ? '' : `: ${said}`}`);
  return new NotDelivered(`http_${status}`, message);
}

/** Reads the answer to a batch. @returns null for one that is not JSON and does not claim to be. */
async function answerOf(response: Response): Promise<unknown> {
  const { bytes, isWhole, error } = await beginningOf(response, ANSWER_BYTES);
  if (error instanceof TypeError) {
    throw new NotDelivered('unreachable', 'the connection was lost in the middle of the answer', {
      cause: error,
    });
  }
  if (error !== null) throw error;
  const text = Buffer.from(bytes).toString('utf8').trim();
  const isJson = /^application\/(?:[\w.+-]+\+)?json\b/i.test(response.headers.get('content-type') ?? '');
  // A receiver may send a count without a content type.
  if (text === '' || !(isJson || text.startsWith('{'))) return null;
  if (!isWhole) throw wrongAnswer(`more than ${ANSWER_BYTES} bytes`);
  try {
    return JSON.parse(text);
  } catch {
    throw wrongAnswer('malformed JSON');
  }
}

function takenOf(answer: unknown, handed: number): number {
  if (typeof answer !== 'object' || answer === null || !('delivered' in answer)) return handed;
  const { delivered } = answer;
  if (typeof delivered === 'number' && Number.isInteger(delivered) && delivered >= 0 && delivered <= handed)
    return delivered;
  const what = typeof delivered === 'number' ? `${delivered}` : `a ${typeof delivered}`;
  throw wrongAnswer(`"delivered": ${what}, to ${handed} events`);
}

function wrongAnswer(what: string): NotDelivered {
  const example = '{ "delivered": 2 } for the first two, or no body for all';
  return new NotDelivered('wrong_answer', `the subscriber answered ${what}; expected ${example}`);
}

function tooOld(): NotDelivered {
  const message = 'the subscriber cannot read this version of the payload: it needs a newer postbud package';
  return new NotDelivered('newer_version', message);
}

/** Whether an answer is the problem with which `postbud/receive` tells so. Its message is not relied on. */
function saysTooOld(answer: string | null): boolean {
  return answer !== null && /"code"\s*:\s*"newer_version"/.test(answer);
}

/** Sends a request. The error of `fetch` for a lost connection only says "fetch failed"; the reason is in its cause. */
async function reach(send: Send, url: string, init: RequestInit): Promise<Response> {
  try {
    return await send(url, init);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    const { cause } = error;
    const why = cause instanceof Error && 'code' in cause ? String(cause.code) : 'no connection';
    throw new NotDelivered('unreachable', `the subscriber cannot be reached: ${why}`, { cause: error });
  }
}

/**
 * Reads `Retry-After` (RFC 9110, 10.2.3): seconds or a date. At least a second, so that a subscriber that answers 0 is not
 * called without a pause; at most a day, so that a mistaken value does not stop the lane.
 */
function retryAfterMs(headers: Headers): number | null {
  const value = headers.get('retry-after');
  if (!value) return null;
  const ms = /^\d+$/.test(value) ? Number(value) * SECOND : Date.parse(value) - Date.now();
  return Number.isNaN(ms) ? null : Math.min(Math.max(ms, 1 * SECOND), DAY);
}
