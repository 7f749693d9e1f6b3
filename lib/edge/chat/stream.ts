import * as z from 'zod';

import { problemResponse } from '../../platform/http/problem.ts';
import { BadResponse, problemOf } from './failure.ts';
import { REFUSAL } from './guard.ts';
import type { ModelCall } from './model-call.ts';
import { tokenUseOf, usage } from './usage.ts';

/** The outcome of an answer that began to stream. */
export type StreamOutcome = 'answered' | 'cut_off' | 'refused';

/** The server-sent events that a caller reads. */
export interface AnswerStream {
  readonly headers?: Readonly<Record<string, string>>;
  /** Written before the first words. */
  readonly opening: string;
  readonly delta: (text: string) => string;
  readonly end: (outcome: StreamOutcome) => string;
  /** @param problem as JSON. */
  readonly fail: (problem: string) => string;
}

/** `delta` events with `{ "text" }`, then `done`, with `finishReason` where the answer was cut, or `error`. */
export const eventStream: AnswerStream = {
  opening: '',
  delta: (text) => event('delta', JSON.stringify({ text })),
  end: (outcome) => event('done', outcome === 'cut_off' ? '{"finishReason":"length"}' : '{}'),
  fail: (problem) => event('error', problem),
};

/** @param json on one line, as `JSON.stringify` writes it. */
function event(name: 'delta' | 'done' | 'error', json: string): string {
  return `event: ${name}\ndata: ${json}\n\n`;
}

/**
 * Streams the model's answer.
 *
 * The response starts with the model's first words, so that an earlier failure is a 502 like any other.
 *
 * @throws the call's error before the first words; the caller ends the call with `fail`. Nothing after that.
 * @see https://html.spec.whatwg.org/multipage/server-sent-events.html
 */
export async function answerStreaming(
  call: ModelCall,
  requestId: string,
  stream: AnswerStream,
): Promise<Response> {
  const opened = await call.attempt(async (messages, params, options) => {
    const pieces = piecesOf(await messages.create({ ...params, stream: true }, options), call);
    return { first: await pieces.next(), pieces, stream };
  });
  const body = new ReadableStream<Uint8Array>({
    // Without backpressure: an answer is a few kilobytes, and a slow caller would keep the provider's socket open.
    start: (controller) => void send(call, opened, controller, requestId),
    cancel: () => call.hangUp(),
  });
  return new Response(body, {
    headers: {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      ...stream.headers,
    },
  });
}

/** The pieces of an answer's text, and finally its outcome. */
type Pieces = AsyncGenerator<string, StreamOutcome, undefined>;

interface Opened {
  readonly first: Awaited<ReturnType<Pieces['next']>>;
  readonly pieces: Pieces;
  readonly stream: AnswerStream;
}

/** Never rejects, since it runs unawaited. */
async function send(
  call: ModelCall,
  { first, pieces, stream }: Opened,
  controller: ReadableStreamDefaultController<Uint8Array>,
  requestId: string,
): Promise<void> {
  const write = (events: string) => controller.enqueue(encoder.encode(events));
  try {
    let step = first;
    if (stream.opening !== '') write(stream.opening);
    for (; !step.done; step = await pieces.next()) write(stream.delta(step.value));
    write(stream.end(step.value));
    call.end(step.value);
  } catch (error) {
    const failure = call.fail(error);
    // The caller has hung up.
    if (!failure) return close(controller);
    const problem = await problemResponse(problemOf(failure), requestId).text();
    return close(controller, stream.fail(problem));
  }
  close(controller);
}

/** Closes the stream, unless its reader has cancelled it. */
function close(controller: ReadableStreamDefaultController<Uint8Array>, last?: string): void {
  try {
    if (last !== undefined) controller.enqueue(encoder.encode(last));
    controller.close();
  } catch {
    // The reader has closed it.
  }
}

const encoder = new TextEncoder();

const streamEvent = z.object({
  type: z.string(),
  message: z.object({ usage }).optional(),
  delta: z
    .object({ type: z.string().optional(), text: z.string().optional(), stop_reason: z.string().nullish() })
    .optional(),
  usage: usage.optional(),
});

/**
 * Extracts the text from the provider's events. White space before the first word is held back.
 *
 * @throws BadResponse when the stream ends early, also because the call was stopped, or has no text.
 */
async function* piecesOf(events: AsyncIterable<unknown>, call: ModelCall): Pieces {
  let held = '';
  let hasText = false;
  let isWhole = false;
  let stopReason: string | undefined;
  for await (const received of events) {
    const { type, message, delta, usage: reported } = parse(received);
    const use = message?.usage ?? reported;
    if (use) call.use = tokenUseOf(use, call.use);
    stopReason = delta?.stop_reason ?? stopReason;
    isWhole ||= type === 'message_stop';
    if (delta?.type !== 'text_delta') continue;
    held += delta.text ?? '';
    if (held === '' || (!hasText && held.trim() === '')) continue;
    yield held;
    hasText = true;
    held = '';
  }
  if (stopReason === 'refusal') {
    yield hasText ? `\n\n${REFUSAL}` : REFUSAL;
    return 'refused';
  }
  if (!isWhole || !hasText) throw new BadResponse();
  return stopReason === 'max_tokens' ? 'cut_off' : 'answered';
}

function parse(received: unknown): z.output<typeof streamEvent> {
  const parsed = streamEvent.safeParse(received);
  if (!parsed.success) throw new BadResponse();
  return parsed.data;
}
