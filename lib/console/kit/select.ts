import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { lastPeriod } from './words.ts';

type Options = readonly (readonly [value: string, words: string])[];

const SINCE: Options = [
  ['', 'Any time'],
  ['1h', 'Last hour'],
  ['24h', 'Last 24 hours'],
  ['7d', 'Last 7 days'],
  ['30d', 'Last 30 days'],
];

/** The periods to choose from, and the one that is chosen. */
export function sinceOptions(since: string | null): Options {
  if (since === null || SINCE.some(([value]) => value === since)) return SINCE;
  return [...SINCE, [since, lastPeriod(since).replace('l', 'L')]];
}

const SELECTED = html`selected`;

/** Draws a list of options with its label. @param chosen its value; null: the first. */
export function select(label: string, name: string, chosen: string | null, options: Options): Html {
  const value = chosen ?? '';
  // The address may hold a value that is no option.
  const all = options.some(([one]) => one === value) ? options : [...options, [value, value] as const];
  return html`<label class="f">
    ${label}
    <select name="${name}">
      ${all.map(
        ([one, words]) => html`<option value="${one}" ${one === value && SELECTED}>${words}</option>`,
      )}
    </select>
  </label>`;
}
