import * as z from 'zod';

import type { Operation, Scope } from '../../platform/http/operation.ts';
import { Problem } from '../../platform/http/problem.ts';
import { readContent, validated } from '../../platform/http/validated.ts';
import { HOME, nextPath } from '../kit/links.ts';
import { BODY_LIMIT_BYTES } from '../kit/route.ts';
import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { SCOPES } from '../../platform/scopes.ts';
import { hiddenField, missingScope } from '../kit/actions.ts';
import type { Operator } from '../kit/operator.ts';
import { factList } from '../kit/sections.ts';
import { capitalize } from '../kit/words.ts';
import { requireOwnPage } from './authenticate.ts';

/** The longest form to sign in with: a form of ours is longer as the text of a field. */
export const SIGN_IN_LIMIT_BYTES = 2 * BODY_LIMIT_BYTES;

/** The same page, which shows a form again that is sent to it. */
export function showingAgain(path: string): string {
  return `${path}${path.includes('?') ? '&' : '?'}${UNSENT}=1`;
}

/**
 * Reads a form that nobody was signed in for, or that was refused.
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

// A form that arrived without a session. It goes with the form to sign in, is shown again on the page that it came
// from, and is sent by the operator. It is in no address and no cookie. During a sign-in with the directory, which leads
// away from the console, the database has it, sealed with a key that only the browser has.

const path = z.string().refine((text) => nextPath(text) === text);

export const unsentForm = z.object({
  path,
  /** Says what it asks for. */
  summary: z.string(),
  /** The one that it needs. */
  scope: z.enum(SCOPES),
  fields: z.record(z.string(), z.string()),
});
export type Unsent = z.output<typeof unsentForm>;

/** Its field in other forms. */
export const UNSENT = 'unsent';

export function unsentField(unsent: Unsent): Html {
  return hiddenField(UNSENT, JSON.stringify(unsent));
}

/** Reads that field. @returns null for anything that we did not write. */
export function unsentIn(text: string | undefined): Unsent | null {
  try {
    return unsentForm.parse(JSON.parse(text ?? ''));
  } catch {
    return null;
  }
}

/** Draws everything that the form asks for. */
export function unsentFacts(
  { path: action, summary, fields }: Unsent,
  without: readonly string[] = [],
): Html {
  const shown = Object.entries(fields).filter(
    ([name, text]) => name !== 'next' && text !== '' && !without.includes(name),
  );
  return factList([
    ['What', summary],
    ['Address', html`<span class="mono given">${action.slice(HOME.length)}</span>`],
    ...shown.map(([name, text]) => [labelOf(name), html`<span class="given">${text}</span>`] as const),
  ]);
}

/** Draws the form again, with what was typed, for the operator to send. @param wrong what is to be corrected first. */
export function unsentPanel(unsent: Unsent, { name: own, scopes }: Operator, url: URL, wrong?: string): Html {
  const { path: action, scope, fields } = unsent;
  const page = wrong === undefined ? url.pathname + url.search : nextPath(fields['next']);
  const why =
    wrong === undefined
      ? 'since you had to sign in first. Check that it still holds, then send it'
      : `${wrong}. Correct it, then send it`;
  const typed = TYPED.filter((name) => name in fields);
  const others = Object.entries(fields).filter(([name]) => !typed.includes(name));
  return html`<form
    class="panel unsent"
    method="post"
    action="${action}"
    aria-labelledby="h-unsent"
    data-unsent
  >
    <h2 id="h-unsent">Not sent yet</h2>
    <p class="muted">
      Nothing was done${wrong === undefined ? ',' : ':'} ${why}. It is logged as yours: ${own}.
    </p>
    ${unsentFacts(unsent, typed)} ${others.map(([name, text]) => hiddenField(name, text))}
    ${typed.map((name) => typedField(name, fields[name]!))}
    ${!scopes.has(scope) && missingScope('Sending it', scope)}
    <div class="end">
      <a class="btn" href="${page}">Discard</a>
      ${scopes.has(scope) && html`<button class="btn primary">Send</button>`}
    </div>
  </form>`;
}

/** The fields that an operator writes in sentences, or to confirm. */
const TYPED: readonly string[] = ['reason', 'note', 'confirm'];

function typedField(name: string, text: string): Child {
  return html`<label class="f">
    ${labelOf(name)}
    <input name="${name}" value="${text}" autocomplete="off" required />
  </label>`;
}

/** `expectedCount` as `Expected count`. */
function labelOf(name: string): string {
  return capitalize(name.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`));
}
