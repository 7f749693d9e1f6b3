import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { ago, span, time, timeText, timeToMinute, until } from './instants.ts';
import { factList } from './sections.ts';
import type { LastError, State } from './shapes.ts';
import { failureLabel, failureText, stateLabel, stateWord } from './states.ts';
import { subscriberLink } from './subscriber-link.ts';
import { ACTIONS, numberColumn, table } from './table.ts';
import type { Column } from './table.ts';
import { count } from './words.ts';

// What a page says, once, for two readers: a browser and a terminal.

/** Words in both forms. Null and an empty text draw nothing. */
export interface Phrase {
  readonly html: Child;
  readonly text: string;
  /** In a terminal. */
  readonly style?: Style;
}

export type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow';

/** A phrase, or what reads the same in both forms. */
export type Part = Phrase | string | number | null | undefined | false;

/** Puts parts together, as `html` does with markup. */
export function say(strings: TemplateStringsArray, ...parts: readonly Part[]): Phrase {
  const phrases = parts.map(phraseOf);
  return {
    html: html(strings, ...phrases.map((phrase) => phrase.html)),
    text: strings.map((text, index) => text + (phrases[index]?.text ?? '')).join(''),
  };
}

export function phraseOf(part: Part): Phrase {
  if (typeof part === 'object' && part !== null) return part;
  return part === null || part === undefined || part === false
    ? { html: null, text: '' }
    : { html: part, text: String(part) };
}

export function styled(style: Style, part: Part): Phrase {
  return { ...phraseOf(part), style };
}

/** What only a browser shows. */
export function inConsole(markup: Child): Phrase {
  return { html: markup, text: '' };
}

/** What only a terminal shows. */
export function inTerminal(text: string): Phrase {
  return { html: null, text };
}

export function strong(part: Part): Phrase {
  const phrase = phraseOf(part);
  return { ...phrase, html: html`<b>${phrase.html}</b>` };
}

export function muted(text: string): Phrase {
  return { html: html`<span class="muted">${text}</span>`, text, style: 'dim' };
}

/** A number, which is grey in a terminal where it is 0. */
export function counted(number: number, style?: Style): Phrase {
  const shown = number === 0 ? 'dim' : style;
  return { ...phraseOf(count(number)), ...(shown && { style: shown }) };
}

export function mono(text: string): Phrase {
  return { html: html`<span class="mono">${text}</span>`, text };
}

/** An id or a name that links to its page. @param look classes beside that of fixed width. */
export function link(path: string, text: string, look = ''): Phrase {
  return { html: html`<a class="${`${look} mono`.trim()}" href="${path}">${text}</a>`, text };
}

/** On a line of its own in a browser. @param before what a terminal writes before it. */
export function below(part: Part, before = ' '): Phrase {
  const { html: inner, text } = phraseOf(part);
  if (inner === null || inner === '') return { html: null, text };
  return { html: html`<span class="s">${inner}</span>`, text: text && before + text };
}

/** An instant: `14:31:40`, `Wed 18:41`. */
export function when(at: string, now: string): Phrase {
  return { html: time(at, now), text: timeText(at, now) };
}

/** An instant for sentences, without seconds in a browser: `since 04:36`. */
export function toMinute(at: string, now: string): Phrase {
  return { html: timeToMinute(at, now), text: timeText(at, now) };
}

/** From one instant to another, which may be the same. */
export function spanPhrase(from: string, to: string, now: string): Phrase {
  const [start, end] = [timeText(from, now), timeText(to, now)];
  return { html: span(from, to, now), text: start === end ? start : `${start} to ${end}` };
}

/** An instant, and in a browser how long ago below it. */
export function whenAndAgo(at: string, now: string): Phrase {
  return { html: html`${time(at, now)}<span class="s">${ago(at, now)}</span>`, text: timeText(at, now) };
}

/** An instant, and how long until then. */
export function whenAndUntil(at: string, now: string): Phrase {
  return { html: html`${time(at, now)}<span class="s">${until(at, now)}</span>`, text: timeText(at, now) };
}

export function subscriberPhrase(subscriber: string, topic?: string): Phrase {
  return { html: subscriberLink(subscriber, topic), text: subscriber };
}

export function errorPhrase(error: LastError): Phrase {
  return { html: failureLabel(error), text: failureText(error) };
}

/** The sign and the colour of each state in a terminal. */
export const MARKS = {
  pending: ['·', 'dim'],
  failing: ['!', 'yellow'],
  dead_lettered: ['✗', 'red'],
  delivered: ['✓', 'green'],
} as const satisfies Readonly<Record<State, readonly [string, Style]>>;

/** A state by a shape, a word and a colour. */
export function statePhrase(state: State): Required<Phrase> {
  const [mark, style] = MARKS[state];
  return { html: stateLabel(state), text: `${mark} ${stateWord(state)}`, style };
}

/** A column of a list: its heading, and what each row says in it. */
export interface ListColumn<Row> extends Omit<Column<Row>, 'cell'> {
  readonly cell: (row: Row) => Part;
  /** The only one that has it. */
  readonly only?: 'console' | 'terminal';
  readonly terminal?: TerminalColumn;
}

/** How a terminal shows a column. */
interface TerminalColumn {
  /** Where it is not the label in small letters. */
  readonly title?: string;
  /** May be narrower than its text, which then continues below, on up to three lines. */
  readonly isFlexible?: boolean;
  /**
   * Is narrowed before the others, and its text cut in the middle: a topic is still known by its beginning and its end,
   * where an error or a reason is not.
   */
  readonly isCut?: boolean;
  /** May be left out: early, rather than narrow other columns, or late, where nothing else makes the table fit. */
  readonly leftOut?: 'early' | 'late';
  /** Stands on a line of its own, below its row, where the table is too wide. */
  readonly isBelow?: boolean;
}

/** Makes a column of numbers, with zeros in grey. */
export function countColumn<Row>(
  label: string,
  numberIn: (row: Row) => number,
  { style, ...terminal }: TerminalColumn & { readonly style?: Style } = {},
): ListColumn<Row> {
  return { ...numberColumn(label, numberIn), terminal, cell: (row) => counted(numberIn(row), style) };
}

/** A list, as a browser and a terminal show it. */
export interface List<Row> {
  readonly name: string;
  /** A longer name for screen readers, where `name` is not enough. */
  readonly caption?: string;
  readonly columns: readonly (ListColumn<Row> | false)[];
  readonly rows: readonly Row[];
  /** The classes of a row in a browser. */
  readonly rowLook?: string | ((row: Row) => string | false);
}

interface AroundRow<Row> {
  readonly before?: Column<Row> | false;
  /** The buttons of a row. */
  readonly actions?: (row: Row) => Child;
}

/** Draws a list for a browser. */
export function listTable<Row>(
  { columns, ...list }: List<Row>,
  { before, actions }: AroundRow<Row> = {},
): Html {
  return table<Row>({
    ...list,
    columns: [
      before ?? false,
      ...columns.map((column) => column && column.only !== 'terminal' && inBrowser(column)),
      actions !== undefined && { ...ACTIONS, cell: (row) => inActs(actions(row)) },
    ],
  });
}

function inActs(buttons: Child): Child {
  return buttons && html`<div class="acts">${buttons}</div>`;
}

export function inBrowser<Row>({ cell, ...column }: ListColumn<Row>): Column<Row> {
  return { ...column, cell: (row) => phraseOf(cell(row)).html };
}

/** Names beside their values. A value without words is left out. */
export type Facts = readonly (readonly [name: string, value: Part] | false | null)[];

/** Draws facts for a browser. @param tone a class of the list, such as `roomy`. */
export function factsOf(facts: Facts, tone?: string): Html {
  const shown = facts.flatMap((fact) => {
    const value = fact ? phraseOf(fact[1]).html : null;
    return fact && value !== null && value !== '' ? [[fact[0], value] as const] : [];
  });
  return factList(shown, tone);
}
