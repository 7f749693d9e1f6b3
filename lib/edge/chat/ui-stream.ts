import type { AnswerStream, StreamOutcome } from './stream.ts';

/** Names the protocol in answers; a request may name it too. */
export const UI_STREAM_HEADER = 'x-vercel-ai-ui-message-stream';

/** The chunks of the AI SDK's UI message stream that an answer of text needs. */
export type UiChunk =
  | { readonly type: 'start' }
  | { readonly type: 'text-start' | 'text-end'; readonly id: string }
  | { readonly type: 'text-delta'; readonly id: string; readonly delta: string }
  | { readonly type: 'finish'; readonly finishReason: (typeof FINISH_REASONS)[StreamOutcome] }
  | { readonly type: 'error'; readonly errorText: string };

const FINISH_REASONS = { answered: 'stop', cut_off: 'length', refused: 'content-filter' } as const;

/** The one text of an answer. */
const id = 'text';

/**
 * The AI SDK's UI message stream, which `useChat` reads.
 *
 * The text of its error is the problem as JSON, as the client has it from an answer that did not begin to stream.
 *
 * @see https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol
 */
export const uiMessageStream: AnswerStream = {
  headers: { [UI_STREAM_HEADER]: 'v1' },
  opening: chunks({ type: 'start' }, { type: 'text-start', id }),
  delta: (delta) => chunks({ type: 'text-delta', id, delta }),
  end: (outcome) =>
    chunks({ type: 'text-end', id }, { type: 'finish', finishReason: FINISH_REASONS[outcome] }) + DONE,
  fail: (problem) => chunks({ type: 'error', errorText: problem }) + DONE,
};

const DONE = 'data: [DONE]\n\n';

function chunks(...written: readonly UiChunk[]): string {
  return written.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('');
}
