import * as z from 'zod';

import { isInvisible } from '../../platform/visible.ts';

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

/** The body of `POST /api/chat`. */
export const chatRequest = z.object({
  system,
  messages: z
    .array(message)
    .min(1)
    .max(16)
    .refine((messages) => messages.length === 0 || messages.at(-1)?.role === 'user', {
      error: 'expected the last message to have the role user',
    })
    .meta({ description: 'The conversation so far, the oldest first. The last is the user’s.' }),
});

function charactersOf(text: string): number {
  return Array.from(text).length;
}
