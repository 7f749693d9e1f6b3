import * as z from 'zod';

import { isInvisible } from '../../platform/visible.ts';

const uiMessage = z.object({
  role: z.enum(['user', 'assistant']),
  parts: z.array(z.object({ type: z.string(), text: z.string().optional() })).meta({
    description: 'The parts of the type `text` are read. A `file` is refused.',
  }),
});

/** The messages of `useChat`. @see https://ai-sdk.dev/docs/reference/ai-sdk-core/ui-message */
export const uiMessages = z.array(uiMessage).min(1).meta({
  description:
    'The conversation as `useChat` of the AI SDK sends it, the oldest first. The newest 16 that fit are asked.',
});

/** One of the plain contract, not yet checked. */
interface Message {
  readonly role: string;
  readonly content: string;
}

/**
 * Reads the messages of `useChat` as those of the plain contract.
 *
 * It sends the whole conversation each time, so the newest are kept that may be asked.
 */
export function newestOf(
  messages: z.output<typeof uiMessages>,
  fits: (messages: readonly Message[]) => boolean,
): readonly Message[] {
  const all = messages.map(({ role, parts }) => ({
    role,
    content: parts.map(({ type, text = '' }) => (type === 'text' ? text : '')).join(''),
  }));
  // An answer that failed before its first word stays in the page's conversation.
  let newest = all.filter(({ content }, index) => index === all.length - 1 || !isInvisible(content));
  if (fits(newest)) return newest;
  do newest = newest.slice(1);
  while (newest.length > 1 && (!fits(newest) || newest[0]?.role === 'assistant'));
  return newest;
}
