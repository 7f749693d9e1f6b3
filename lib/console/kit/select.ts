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

interface TopicField {
  /** What the page is about now; null: nothing is chosen. */
  readonly topic: string | null;
  /** The topics to choose from. */
  readonly names: readonly string[];
  /** What an empty field means; null: the field must be filled. */
  readonly all?: string | null;
}

/** Draws a field for a topic, which is typed and completed. A page has one at most. */
export function topicField({ topic, names, all = 'All topics' }: TopicField): Html {
  return html`<label class="f topic">
    Topic
    <input
      type="search"
      name="topic"
      value="${topic}"
      list="topic-names"
      placeholder="${all ?? 'for example: payment.captured'}"
      maxlength="255"
      spellcheck="false"
      autocapitalize="off"
      autocomplete="off"
      ${all === null && REQUIRED}
    /><datalist id="topic-names">${names.map((name) => html`<option value="${name}"></option>`)}</datalist>
  </label>`;
}

const REQUIRED = html`required`;
