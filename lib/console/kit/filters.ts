import * as z from 'zod';

import { topics } from '../../bus/catalog/catalog.ts';
import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { hiddenField } from './actions.ts';
import { ago, topicText } from './replay-request.ts';

// The filters of a list, once: its query, its form, the options of its command and OpenAPI follow from them.

export interface Filter {
  readonly shape: z.ZodOptional<z.ZodType<string>>;
  /** Of the command; its name is the field's where it has none of its own. */
  readonly option: {
    readonly name?: string;
    readonly value: string;
    readonly help: string;
    /** Whether it is the argument of the command, and no option. */
    readonly isArgument?: true;
  };
  /** Draws its field. @param value null: all. */
  readonly field: (name: string, value: string | null) => Child;
}

export type Filters = Readonly<Record<string, Filter>>;

/** Filters with what they are set to, for the form of a page. */
export interface Filtered {
  readonly path: string;
  readonly by: Filters;
  readonly values: Readonly<Record<string, unknown>>;
}

export const byTopic: Filter = {
  shape: topicText.optional(),
  option: { value: '<topic>', help: 'only this topic' },
  field: (name, topic) =>
    html`<label class="f topic">
      Topic
      <input
        type="search"
        name="${name}"
        value="${topic}"
        list="topic-names"
        placeholder="All topics"
        maxlength="255"
        spellcheck="false"
        autocapitalize="off"
        autocomplete="off"
      /><datalist id="topic-names">
        ${topics().map(([known]) => html`<option value="${known}"></option>`)}
      </datalist>
    </label>`,
};

export const bySubscriber: Filter = {
  shape: z.string().max(100).optional(),
  option: { value: '<name>', help: 'only this subscriber' },
  field: (name, value) => {
    const names = [...new Set(topics().flatMap(([, { subscribers }]) => subscribers))].toSorted();
    const options = names.map((one) => [one, one] as const);
    return select('Subscriber', name, value, [['', 'All subscribers'], ...options]);
  },
};

/** @param states those that there are, which may be written as they are read: `dead-lettered`. */
export function byState<State extends string>(states: z.ZodEnum<Record<State, State>>, help: string) {
  return {
    shape: z
      .preprocess((text) => (typeof text === 'string' ? text.replaceAll('-', '_') : text), states)
      .optional(),
    option: { value: '<state>', help },
    field: (name, value) =>
      select('State', name, value, [
        ['', 'Any state'],
        ...states.options.map((one) => [one, one.replaceAll('_', '-')] as const),
      ]),
  } satisfies Filter;
}

/** @param label what happened within this time: `Dead-lettered`. */
export function bySince(label: string): Filter {
  return {
    shape: ago.optional(),
    option: { value: '<24h>', help: `${label.toLowerCase()} within this time, such as 90m, 24h or 7d` },
    field: (name, value) => select(label, name, value, SINCE, `Last ${value}`),
  };
}

/** A filter that links set, or the argument of a command: the form keeps it, and has no field for it. */
export function byLink<Shape extends Filter['shape']>(shape: Shape, option: Filter['option']) {
  return {
    shape,
    option,
    field: (name, value) => value !== null && hiddenField(name, value),
  } satisfies Filter;
}

/** @param label of its field. @param example of what is typed. */
export function byText(label: string, option: Filter['option'], example?: string): Filter {
  return {
    shape: z.string().trim().max(255).optional(),
    option,
    field: (name, value) =>
      html`<label class="f grow">
        ${label}<input
          type="search"
          name="${name}"
          value="${value}"
          ${example !== undefined && html`placeholder="for example: ${example}"`}
          spellcheck="false"
          autocapitalize="off"
        />
      </label>`,
  };
}

/** The shapes of a list's query. */
export function shapesIn<Of extends Filters>(
  filters: Of,
): { readonly [Name in keyof Of]: Of[Name]['shape'] } {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the same names
  return Object.fromEntries(Object.entries(filters).map(([name, { shape }]) => [name, shape])) as {
    readonly [Name in keyof Of]: Of[Name]['shape'];
  };
}

/** Draws the filters as a plain form, so that the address holds them and can be shared. */
export function filterBar({ path, by, values }: Filtered): Html {
  const valueOf = (name: string) => (typeof values[name] === 'string' ? values[name] : null);
  const isFiltered = Object.keys(by).some((name) => valueOf(name));
  return html`<form class="filters bar" method="get" action="${path}">
    ${Object.entries(by).map(([name, { field }]) => field(name, valueOf(name)))}
    <button class="btn">Apply</button>
    ${isFiltered && html`<a class="btn quiet" href="${path}">Clear</a>`}
  </form>`;
}

type Options = readonly (readonly [value: string, words: string])[];

/** The periods to choose from. */
const SINCE: Options = [
  ['', 'Any time'],
  ['1h', 'Last hour'],
  ['24h', 'Last 24 hours'],
  ['7d', 'Last 7 days'],
  ['30d', 'Last 30 days'],
];

const SELECTED = html`selected`;

/** Draws a list of options with its label. @param chosen its value, which the address may hold though it is no option; null: the first. */
export function select(
  label: string,
  name: string,
  chosen: string | null,
  options: Options,
  other = chosen ?? '',
): Html {
  const value = chosen ?? '';
  const all = options.some(([one]) => one === value) ? options : [...options, [value, other] as const];
  return html`<label class="f">
    ${label}
    <select name="${name}">
      ${all.map(
        ([one, words]) => html`<option value="${one}" ${one === value && SELECTED}>${words}</option>`,
      )}
    </select>
  </label>`;
}
