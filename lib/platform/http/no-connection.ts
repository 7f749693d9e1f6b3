import { codeOf } from '../log.ts';

/**
 * Errors of connections that were never established: no server received the request. Resets and timeouts are not among
 * them: by then the request may have been sent.
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

/** The code of an error's innermost cause, or else of the error. */
export function deepestCodeOf(error: unknown): string | undefined {
  const cause = error instanceof Error ? error.cause : undefined;
  return (cause instanceof Error ? deepestCodeOf(cause) : undefined) ?? codeOf(error);
}
