import * as z from 'zod';

import { isInvisible } from '../../platform/visible.ts';
import { newestOf, uiMessages } from './ui-messages.ts';

/** A checked request of a page of the marketing site. */
export type ChatRequest = z.output<typeof chatRequest>;

/** The longest accepted system prompt, in code points: an emoji counts as one. */
const SYSTEM_LIMIT = 8000;

/**
 * The provider refuses a text without visible characters, and a lone surrogate, which a page leaves that cuts a text in
 * the middle of an emoji.
 */
const visibleText = z
  .string()
  .refine((text) => !isInvisible(text), 'expected at least one visible character')
  .transform((text) => text.toWellFormed())
  .meta({ minLength: 1 });

const message = z.object({
  // The provider's third role, `system`, would let a visitor speak for the owner.
  role: z.enum(['user', 'assistant']),
  content: visibleText,
});

const system = visibleText
  .refine((text) => charactersOf(text) <= SYSTEM_LIMIT, `expected at most ${SYSTEM_LIMIT} characters`)
  .meta({ maxLength: SYSTEM_LIMIT, description: 'Instructions to the model from the page.' });

const MOST_MESSAGES = 16;

/** The body of `POST /api/chat`. */
export const plainRequest = z.object({
  system,
  messages: z
    .array(message)
    .min(1)
    .max(MOST_MESSAGES)
    .refine((messages) => messages.length === 0 || messages.at(-1)?.role === 'user', {
      error: 'expected the last message to have the role user',
    })
    .meta({ description: 'The conversation so far, the oldest first. The last is the user’s.' }),
});

/** The body as `useChat` of the AI SDK sends it, with `system` in its option `body`. */
export const uiRequest = z.object({ system, messages: uiMessages });

/** Either body, as the plain one. */
export const chatRequest = z.preprocess(
  (body, context) => {
    const { data } = z.looseObject({ messages: uiMessages }).safeParse(body);
    if (!data) return isObject(body) ? { ...body, isUi: undefined } : body;
    for (const [index, { parts }] of data.messages.entries()) {
      if (!parts.some(({ type }) => type === 'file')) continue;
      context.addIssue({
        code: 'custom',
        message: 'expected parts of text: this endpoint takes no files',
        path: ['messages', index, 'parts'],
        input: parts,
      });
    }
    const given = typeof data['system'] === 'string' ? data['system'] : '';
    const messages = newestOf(
      data.messages,
      (newest) =>
        newest.length <= MOST_MESSAGES && bytesOf({ system: given, messages: newest }) <= TEXTS_LIMIT_BYTES,
    );
    return { ...data, messages, isUi: true };
  },
  plainRequest.extend({ isUi: z.literal(true).optional() }),
);

/** The longest texts of a request, which bound what a call costs. In bytes of UTF-8, however JSON has escaped them. */
export const TEXTS_LIMIT_BYTES = 64 * 1024;

export function bytesOf(request: {
  readonly system: string;
  readonly messages: readonly { readonly content: string }[];
}): number {
  const texts = [request.system, ...request.messages.map(({ content }) => content)];
  return texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);
}

const isObject = (body: unknown): body is object =>
  typeof body === 'object' && body !== null && !Array.isArray(body);

function charactersOf(text: string): number {
  return Array.from(text).length;
}
