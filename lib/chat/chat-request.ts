import * as z from 'zod';

/** What a page of the marketing site asks, once checked. */
export type ChatRequest = z.output<typeof chatRequest>;

/** The longest system prompt that is taken, in characters as a reader counts them: an emoji is one, not two. */
const SYSTEM_LIMIT = 8000;

/** White space, control characters, zero-width ones: the provider refuses a text of nothing else. */
const INVISIBLE = /^[\s\p{C}]*$/u;

/** A page that cuts a text in the middle of an emoji leaves half of it, which no JSON parser of the provider takes. */
const visibleText = z
  .string()
  .refine((text) => !INVISIBLE.test(text), 'expected at least one visible character')
  .transform((text) => text.toWellFormed())
  .meta({ minLength: 1 });

const message = z.object({
  // The provider knows a third role, `system`, which would let a visitor speak with the owner's voice.
  role: z.enum(['user', 'assistant']),
  content: visibleText,
});

const system = visibleText
  .refine((text) => charactersOf(text) <= SYSTEM_LIMIT, `expected at most ${SYSTEM_LIMIT} characters`)
  .meta({ maxLength: SYSTEM_LIMIT, description: 'What the page wants the model to know and to be.' });

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
