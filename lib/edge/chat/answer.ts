import * as z from 'zod';

import { BadResponse } from './failure.ts';
import { REFUSAL } from './guard.ts';
import type { ModelCall } from './model-call.ts';
import { tokenUseOf, usage } from './usage.ts';

/**
 * Answers with the model's whole answer: `{ "text": "…" }`, with `finishReason` where it was cut.
 *
 * @throws the call's error; the caller ends the call with `fail`.
 */
export async function answerWhole(call: ModelCall): Promise<Response> {
  const message = await call.attempt(async (messages, params, options) =>
    parse(await messages.create(params, options)),
  );
  call.use = tokenUseOf(message.usage);
  if (message.stop_reason === 'refusal') {
    call.end('refused');
    return Response.json({ text: REFUSAL });
  }
  const text = textOf(message);
  const isCut = message.stop_reason === 'max_tokens';
  call.end(isCut ? 'cut_off' : 'answered');
  return Response.json({ text, ...(isCut && { finishReason: 'length' }) });
}

type Message = z.output<typeof message>;

const message = z.object({
  type: z.literal('message'),
  content: z.array(z.object({ type: z.string(), text: z.string().optional() })),
  stop_reason: z.string().nullable(),
  usage,
});

/** The SDK's types are not reliable: it returns an HTML page with status 200 as a string. @throws BadResponse */
function parse(answer: unknown): Message {
  const parsed = message.safeParse(answer);
  if (!parsed.success) throw new BadResponse();
  return parsed.data;
}

/** Skips thinking blocks, which may come first. @throws BadResponse when there is no text */
function textOf({ content }: Message): string {
  const text = content.map((block) => (block.type === 'text' ? (block.text ?? '') : '')).join('');
  if (text.trim() === '') throw new BadResponse();
  return text;
}
