import * as z from 'zod';

import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { SCOPES } from '../../platform/scopes.ts';
import { hiddenField, missingScope } from './actions.ts';
import { HOME } from './links.ts';
import { nextPath } from './next-path.ts';
import type { Operator } from './operator.ts';
import { factList } from './sections.ts';
import { capitalize } from './words.ts';

// A form that arrived without a session. It goes with the form to sign in, is shown again on the page that it came
// from, and is sent by the operator. It is in no address and no cookie. During a sign-in with the directory, which leads
// away from the console, the database has it, sealed with a key that only the browser has.

const path = z.string().refine((text) => nextPath(text) === text);

const unsentForm = z.object({
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

/** Draws the form again, with what was typed, for the operator to send. */
export function unsentPanel(unsent: Unsent, { name: own, scopes }: Operator, url: URL): Html {
  const { path: action, scope, fields } = unsent;
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
      Nothing was done, since you had to sign in first. Check that it still holds, then send it. It is logged
      as yours: ${own}.
    </p>
    ${unsentFacts(unsent, typed)} ${others.map(([name, text]) => hiddenField(name, text))}
    ${typed.map((name) => typedField(name, fields[name]!))}
    ${!scopes.has(scope) && missingScope('Sending it', scope)}
    <div class="end">
      <a class="btn" href="${url.pathname + url.search}">Discard</a>
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
