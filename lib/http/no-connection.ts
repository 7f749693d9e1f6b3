import { codeOf } from '../log.ts';

/**
 * How a connection fails that was never there: nobody can have received what was meant for its other end. A reset or a
 * timeout is none of them, since the request may have been sent by then.
 */
const NEVER_CONNECTED: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
]);

/** @param code of the connection's error. */
export function isNeverConnected(code: string | undefined): boolean {
  return code !== undefined && NEVER_CONNECTED.has(code);
}

/** The code of what has caused an error in the end, under whatever it was wrapped in. */
export function deepestCodeOf(error: unknown): string | undefined {
  const cause = error instanceof Error ? error.cause : undefined;
  return (cause instanceof Error ? deepestCodeOf(cause) : undefined) ?? codeOf(error);
}
