import { createHash } from 'node:crypto';

import { codeOf, log } from '../log.ts';
import type { Statement } from './statement.ts';

/** Errors that a statement met because it was sent by name. Without names, its transaction may succeed. */
const lostNames = new WeakSet();

/**
 * The names under which the connections of a database prepare statements.
 *
 * A pooler in transaction mode that does not know of names gives each transaction another session, which may or may not
 * have prepared the statement. From the first error that says so on, statements are sent without names.
 */
export class PreparedNames {
  #areKept = true;
  readonly #known = new Map<string, string>();

  /**
   * Gives the name to send a statement by.
   *
   * It has a hash of the text, because behind such a pooler releases share sessions, and one must not run the text that
   * another one prepared under the same name.
   */
  of({ name, text }: Statement): string | undefined {
    if (name === undefined || !this.#areKept) return undefined;
    let known = this.#known.get(name);
    if (known === undefined) {
      known = `${name}_${createHash('sha256').update(text).digest('hex').slice(0, 8)}`;
      this.#known.set(name, known);
    }
    return known;
  }

  /** Goes on without names when the error of a statement that was sent by name says that names are not kept. */
  heed(error: unknown): void {
    if (!saysThatNamesAreLost(error)) return;
    lostNames.add(error);
    if (!this.#areKept) return;
    this.#areKept = false;
    log(
      'warn',
      'statements go on unnamed: a pooler in front of the database does not keep prepared statements',
    );
  }
}

/** Whether a statement failed because its name was lost, so that its transaction may succeed when it runs again. */
export function isOfLostNames(error: unknown): boolean {
  return error instanceof Error && lostNames.has(error);
}

/** No such prepared statement; there is one already; and the words of poolers that keep track of names themselves. */
function saysThatNamesAreLost(error: unknown): error is Error {
  const code = codeOf(error);
  if (code === '26000' || code === '42P05') return true;
  return code === '08P01' && error instanceof Error && /prepared statement/i.test(error.message);
}
