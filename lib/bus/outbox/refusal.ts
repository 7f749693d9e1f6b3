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

/**
 * Finds what to throw when a call of `postbud_emit` or `postbud_cancel_timer` has failed: what the function said, that the
 * database has no such function, or else the database's error.
 */
export function callErrorOf(topic: string, error: unknown): unknown {
  const said = refusalOf(topic, error);
  if (said !== undefined) return said;
  for (let cause = error; cause instanceof Error; cause = cause.cause)
    if ('code' in cause && NO_FUNCTION.has(cause.code)) return new Error(NO_BUS, { cause: error });
  return error;
}

/** An unknown function or schema. */
const NO_FUNCTION: ReadonlySet<unknown> = new Set(['42883', '3F000']);

const NO_BUS =
  'the event bus is not in the schema public of this database, or is of an older release: connect to the database of the bus, and run npm run migrate there first. A service with a database of its own records its events by postbud/outbox';
