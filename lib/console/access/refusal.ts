import type { OperatorSettings } from '../../platform/config.ts';
import { readable } from '../../platform/config.ts';
import type { ProblemCode } from '../../platform/http/problem-codes.ts';
import { Problem } from '../../platform/http/problem.ts';
import type { Answer } from '../kit/route.ts';
import { hostOf } from './directory.ts';
import { signInPage } from './page.ts';

/** The directory's host; null where there is none, or a variable is wrong: the page can be seen all the same. */
export function directoryIn(settings: () => OperatorSettings): string | null {
  const directory = readable(settings)?.directory;
  return directory ? hostOf(directory) : null;
}

/** What is no mistake of the person's, and yet told on the page to sign in: another way is on it. */
const TOLD: ReadonlySet<ProblemCode> = new Set(['directory_unavailable', 'directory_answer_invalid']);

/** The directory would send the same person again, unless it is asked not to. */
const OF_THIS_PERSON: ReadonlySet<ProblemCode> = new Set([
  'no_role',
  'insufficient_scope',
  'directory_refused',
]);

/** The page to sign in again, with what is wrong. @throws what is not for a person, or is not about signing in. */
export function refusal(
  error: unknown,
  isBrowser: boolean,
  form: Omit<Parameters<typeof signInPage>[0], 'problem' | 'anew'>,
): Answer<void> {
  if (!isBrowser || !(error instanceof Problem) || (error.status >= 500 && !TOLD.has(error.code)))
    throw error;
  const { status, code, detail, headers } = error;
  const page = () => signInPage({ ...form, problem: detail, anew: OF_THIS_PERSON.has(code) });
  return { status, json: { code }, headers, page };
}
