import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { hiddenField } from './actions.ts';
import { again } from './entered.ts';
import { WARNING_ICON } from './icons.ts';
import type { PageContext } from './layout.ts';
import { alert } from './sections.ts';

// The parts of a page that shows what an action would do, and asks for its confirmation.

/** More than fits on a screen: typing the number proves that it was read. */
export const CONFIRMED_ABOVE = 100;

/** Asks for the number to be typed, where there are many. @param action a verb, such as `replay`. */
export function confirmField(matched: number, action: string, { entered }: PageContext): Child {
  const hint = `Required to ${action} more than ${CONFIRMED_ABOVE}`;
  return matched > CONFIRMED_ABOVE && typedField(`${matched}`, hint, entered);
}

/** Asks for a text to be typed again. The server checks it, and says beside the field what is wrong. */
export function typedField(text: string, hint: string | null, entered: PageContext['entered']): Html {
  const { value, invalid, message } = again('confirm', entered);
  return html`<label class="f">
    Type ${text} to confirm ${hint !== null && html`<span class="hint">${hint}</span>`}
    <input name="confirm" value="${value}" ${invalid} required autocomplete="off" spellcheck="false" />
    ${message}
  </label>`;
}

export function warning(words: Html): Html {
  return alert('fail', WARNING_ICON, words);
}

/** The previewed request as hidden fields, so that what is done is exactly what was previewed. */
export function requestFields(request: Readonly<Record<string, unknown>>): Html {
  return html`${Object.entries(request).map(([name, value]) => {
    const text = fieldText(value);
    return name === 'dryRun' || name === 'reason' || text === null ? null : hiddenField(name, text);
  })}`;
}

/** Joins a list with commas. @returns null for a field that the request does not have. */
function fieldText(value: unknown): string | null {
  if (Array.isArray(value)) return value.length === 0 ? null : value.map(String).join(',');
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    ? String(value)
    : null;
}
