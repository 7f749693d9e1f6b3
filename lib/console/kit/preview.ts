import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { hiddenField } from './actions.ts';
import { WARNING_ICON } from './icons.ts';
import { alert } from './sections.ts';

// The parts of a page that shows what an action would do, and asks for its confirmation.

/** More than fits on a screen: typing the number proves that it was read. */
export const CONFIRMED_ABOVE = 100;

/** Asks for the number to be typed, where there are many. @param action a verb, such as `replay`. */
export function confirmField(matched: number, action: string): Child {
  return (
    matched > CONFIRMED_ABOVE &&
    html`<label class="f">
      Type ${matched} to confirm
      <span class="hint">Required to ${action} more than ${CONFIRMED_ABOVE}</span>
      <input
        name="confirm"
        inputmode="numeric"
        autocomplete="off"
        required
        pattern="${matched}"
        title="Type ${matched}, without spaces or commas"
      />
    </label>`
  );
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
