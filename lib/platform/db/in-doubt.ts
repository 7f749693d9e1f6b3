import { InvalidConfiguration } from '../config.ts';
import { codeOf } from '../log.ts';
import { isAnswer } from './pooled-connection.ts';

/** Errors of connections that were never established. */
const NEVER_CONNECTED: ReadonlySet<unknown> = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', '57P03']);

/**
 * Whether a statement or a commit that failed with this error may have been committed all the same: the connection was
 * lost, or nobody waited any longer.
 */
export function isInDoubt(error: unknown): boolean {
  // It stands for an answer of the server's that the surroundings explain.
  if (error instanceof InvalidConfiguration) return false;
  return !isAnswer(error) && !NEVER_CONNECTED.has(codeOf(error));
}
