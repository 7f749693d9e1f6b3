import * as z from 'zod';

import { problemResponse } from '../../platform/http/problem.ts';
import { BadResponse, problemOf } from './failure.ts';
import { REFUSAL } from './guard.ts';
import type { ModelCall } from './model-call.ts';
import { tokenUseOf, usage } from './usage.ts';

/**
 * Streams the model's answer: `delta` events with `{ "text" }`, then `done`, or `error` with the problem.
 *
 * The response starts with the model's first words, so that an earlier failure is a 502 like any other.
 *
 * @throws the call's error before the first words; the caller ends the call with `fail`. Nothing after that.
 * @see https://html.spec.whatwg.org/multipage/server-sent-events.html
 */
export async function answerStreaming(call: ModelCall, requestId: string): Promise<Response> {
  const opened = await call.attempt(async (messages, params, options) => {
    const pieces = piecesOf(await messages.create({ ...params, stream: true }, options), call);
    return { first: await pieces.next(), pieces };
  });
  const body = new ReadableStream<Uint8Array>({
    // Without backpressure: an answer is a few kilobytes, and a slow caller would keep the provider's socket open.
    start: (controller) => void send(call, opened, controller, requestId),
    cancel: () => call.hangUp(),
  });
  return new Response(body, {
    headers: { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-store' },
  });
}

/** The pieces of an answer's text, and finally its outcome. */
type Pieces = AsyncGenerator<string, 'answered' | 'cut_off' | 'refused', undefined>;

interface Opened {
  readonly first: Awaited<ReturnType<Pieces['next']>>;
  readonly pieces: Pieces;
}

/** Never rejects, since it runs unawaited. */
async function send(
  call: ModelCall,
  { first, pieces }: Opened,
  controller: ReadableStreamDefaultController<Uint8Array>,
  requestId: string,
): Promise<void> {
  try {
    let step = first;
    for (; !step.done; step = await pieces.next()) {
      controller.enqueue(event('delta', JSON.stringify({ text: step.value })));
    }
    controller.enqueue(event('done', '{}'));
    call.end(step.value);
  } catch (error) {
    const failure = call.fail(error);
    // The caller has hung up.
    if (!failure) return close(controller);
    const problem = await problemResponse(problemOf(failure), requestId).text();
    return close(controller, event('error', problem));
  }
  close(controller);
}

/** Closes the stream, unless its reader has cancelled it. */
function close(controller: ReadableStreamDefaultController<Uint8Array>, last?: Uint8Array): void {
  try {
    if (last) controller.enqueue(last);
    controller.close();
  } catch {
    // The reader has closed it.
  }
}

const encoder = new TextEncoder();

/** @param json on one line, as `JSON.stringify` writes it. */
function event(name: 'delta' | 'done' | 'error', json: string): Uint8Array {
  return encoder.encode(`event: ${name}\ndata: ${json}\n\n`);
}

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
