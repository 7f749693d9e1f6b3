import * as z from 'zod';

import { InvalidPayload, NotYourTopic, UnknownTopic } from './errors.ts';

/** An error of `postbud_emit`, as the drivers have it. */
const refusal = z.object({
  code: z.enum(['PB001', 'PB002', 'PB004']),
  message: z.string(),
  detail: z.string().optional(),
  hint: z.string().optional(),
});

const issues = z.array(z.object({ path: z.string(), message: z.string() }));

/** Finds what `postbud_emit` said; Drizzle wraps a driver's error. @returns undefined for any other error. */
export function refusalOf(
  topic: string,
  error: unknown,
): UnknownTopic | InvalidPayload | NotYourTopic | undefined {
  const { success, data } = refusal.safeParse(error);
  if (!success) return error instanceof Error && error.cause ? refusalOf(topic, error.cause) : undefined;
  const said = data.hint === undefined ? data.message : `${data.message}: ${data.hint}`;
  switch (data.code) {
    case 'PB001':
      return new UnknownTopic(topic, said, { cause: error });
    case 'PB002':
      return new InvalidPayload(topic, issues.parse(JSON.parse(data.detail ?? '[]')), { cause: error });
    case 'PB004':
      return new NotYourTopic(topic, said, { cause: error });
  }
}
