import * as z from 'zod';

import type { Operation, Scope } from '../../platform/http/operation.ts';
import { Problem } from '../../platform/http/problem.ts';
import { readContent, validated } from '../../platform/http/validated.ts';
import { nextPath } from '../kit/next-path.ts';
import { BODY_LIMIT_BYTES } from '../kit/route.ts';
import { UNSENT, unsentIn } from '../kit/unsent.ts';
import type { Unsent } from '../kit/unsent.ts';
import { requireOwnPage } from './authenticate.ts';

/** The longest form to sign in with: a form of ours is longer as the text of a field. */
export const SIGN_IN_LIMIT_BYTES = 2 * BODY_LIMIT_BYTES;

/** The same page, which shows a form again that is sent to it. */
export function showingAgain(path: string): string {
  return `${path}${path.includes('?') ? '&' : '?'}${UNSENT}=1`;
}

/**
 * Reads a form that nobody was signed in for.
 *
 * @returns null for anything but a form of one of our own pages: what another site has filled in is not kept.
 */
export async function readUnsent(
  request: Request,
  { summary, access, body }: Pick<Operation, 'summary' | 'body'> & { readonly access: Scope },
): Promise<Unsent | null> {
  if (!body) return null;
  const fields = await readOwnForm(request, BODY_LIMIT_BYTES);
  const { pathname: path } = new URL(request.url);
  return fields && unsentIn(JSON.stringify({ path, summary, scope: access, fields }));
}

/** Reads such a form from the one to sign in with, and where that leads. */
export async function readCarried(
  request: Request,
): Promise<{ readonly next: string; readonly unsent: Unsent | null }> {
  const fields = await readOwnForm(request, SIGN_IN_LIMIT_BYTES);
  return { next: nextPath(fields?.['next']), unsent: unsentIn(fields?.[UNSENT]) };
}

const form = z.record(z.string(), z.string());

async function readOwnForm(request: Request, limitBytes: number): Promise<z.output<typeof form> | null> {
  try {
    requireOwnPage(request);
    const content = await readContent(request, ['application/x-www-form-urlencoded'], limitBytes);
    return validated(content, form);
  } catch (error) {
    if (error instanceof Problem) return null;
    throw error;
  }
}
