import type { Problem } from '../../platform/http/problem.ts';
import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';

/** What an operator typed into a form that was refused, and what is wrong with it: all stays as it was typed. */
export interface Entered {
  readonly fields: Readonly<Record<string, string>>;
  /** By field; without a name what concerns the whole form. */
  readonly wrong: Readonly<Record<string, string>>;
}

export function enteredIn(
  fields: Entered['fields'],
  { code, detail, issues: [first] = [] }: Problem,
): Entered {
  if (code === 'not_confirmed') return { fields, wrong: { confirm: detail } };
  return { fields, wrong: first?.path === 'reason' ? { reason: first.message } : { '': detail } };
}

/** The attributes of a field with what was typed, and the message beside it. */
export function again(
  name: string,
  entered: Entered | undefined,
): { readonly value: string | null; readonly invalid: Html | null; readonly message: Child } {
  const wrong = entered?.wrong[name];
  return {
    value: entered?.fields[name] ?? null,
    invalid:
      wrong === undefined ? null : html`aria-invalid="true" aria-describedby="wrong-${name}" autofocus`,
    message: wrong !== undefined && html`<span class="wrong" id="wrong-${name}">${wrong}</span>`,
  };
}
