import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { ago, count, duration, shortId, time, timeText } from './words.ts';
import { factList } from './sections.ts';
import type { LastError, State } from './shapes.ts';
import { failureLabel, failureText, LOOKS } from './states.ts';
import { subscriberPath } from './links.ts';

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

/** A dash in the place of a number in a browser, with words for screen readers. */
export function absent(words: string): Phrase {
  return inConsole(html`<span aria-hidden="true">–</span><span class="vh">${words}</span>`);
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

/** Words that link to a page. */
export function linked(path: string, text: string): Phrase {
  return { html: html`<a href="${path}">${text}</a>`, text };
}

/** Links to pages, where there is nothing else to say: a terminal has commands instead. */
export function pageLinks(...links: readonly (readonly [path: string, words: string])[]): Phrase {
  return inConsole(links.map((one, place) => [place > 0 && ', ', linked(...one).html]));
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

/** From one instant to another, which may be the same. */
export function spanPhrase(from: string, to: string, now: string): Phrase {
  return timeText(from, now) === timeText(to, now)
    ? when(from, now)
    : say`${when(from, now)} – ${when(to, now)}`;
}

/** An instant, and in a browser how long ago below it. */
export function whenAndAgo(at: string, now: string): Phrase {
  return say`${when(at, now)}${inConsole(below(ago(at, now)).html)}`;
}

/** A subscriber's name, with a link to its page. */
export function subscriberPhrase(subscriber: string): Phrase {
  return link(subscriberPath(subscriber), subscriber);
}

export function errorPhrase(error: LastError): Phrase {
  return { html: failureLabel(error), text: failureText(error) };
}

/** A state by a shape, a word and a colour. */
export function statePhrase(state: keyof typeof LOOKS): Required<Phrase> {
  const { tone, icon, style, mark } = LOOKS[state];
  const word = state.replace('_', '-');
  return {
    html: html`<span class="state ${tone && `${tone}-t`}">${icon}${word}</span>`,
    text: `${mark} ${word}`,
    style,
  };
}

/** A column of a list: its heading, and what each row says in it. */
export interface ListColumn<Row> {
  /** Heads the column, and each of its cells where a row is a card. Cells that explain themselves have none. */
  readonly label?: string;
  /** What the heading shows, if not just the label. */
  readonly heading?: Html;
  /** The class of the heading and of the cells: `num` for numbers, `end` for what is aligned at its end. */
  readonly tone?: 'num' | 'end' | 'check';
  /** Whether its cells name their rows. */
  readonly isRowHeader?: boolean;
  /** More classes of a cell. */
  readonly look?: Look<Row>;
  readonly cell: (row: Row) => Part;
}

/** Classes, the same for all rows or by row. */
type Look<Row> = string | ((row: Row) => string | false);

/** Makes a column of numbers, with zeros in grey. */
export function countColumn<Row>(
  label: string,
  numberIn: (row: Row) => number,
  style?: Style,
): ListColumn<Row> {
  return {
    label,
    tone: 'num',
    look: (row: Row) => numberIn(row) === 0 && 'zero',
    cell: (row: Row) => counted(numberIn(row), style),
  };
}

/** A list, as a browser and a terminal show it. */
export interface List<Row> {
  readonly name: string;
  readonly columns: readonly (ListColumn<Row> | false)[];
  readonly rows: readonly Row[];
  /** Names a row in a terminal, whose commands take the id; a browser has links. */
  readonly idOf?: (row: Row) => string;
  /** The classes of a row in a browser: `r` marks the one under the pointer. */
  readonly rowLook?: Look<Row>;
}

/**
 * Draws a list for a browser. On a narrow screen each row is a card: its cells stand below each other, each with its
 * column's label. Every element has its role, which a browser may drop when the style draws a row as a card.
 */
export function listTable<Row>(
  { name, columns, rows, rowLook = 'r' }: List<Row>,
  { before, actions }: { before?: ListColumn<Row> | false; actions?: (row: Row) => Child } = {},
): Html {
  const all = [before, ...columns, actions && actionsColumn(actions)];
  const shown = all.flatMap((column) => column || []);
  return html`<div class="scroll" tabindex="0" role="region" aria-label="${name}, table">
    <table role="table">
      <caption class="vh">
        ${name}
      </caption>
      <thead role="rowgroup">
        <tr role="row">
          ${shown.map(
            ({ label, heading = html`${label}`, tone }) =>
              html`<th${attribute('class', tone)} scope="col" role="columnheader">${heading}</th>`,
          )}
        </tr>
      </thead>
      <tbody role="rowgroup">
        ${rows.map(
          (row) =>
            html`<tr${attribute('class', lookOf(rowLook, row))} role="row">${shown.map((column) => cellOf(row, column))}</tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

/** A column of buttons, whose heading only screen readers read. */
function actionsColumn<Row>(actions: (row: Row) => Child): ListColumn<Row> {
  return {
    heading: html`<span class="vh">Actions</span>`,
    tone: 'end',
    cell: (row) => {
      const buttons = actions(row);
      return inConsole(buttons && html`<div class="acts">${buttons}</div>`);
    },
  };
}

function cellOf<Row>(row: Row, { label, isRowHeader = false, tone, look, cell }: ListColumn<Row>): Html {
  const classes = [isRowHeader && 'row', tone, lookOf(look, row)].filter(Boolean).join(' ');
  const [about, shown] = [attribute('data-label', label), phraseOf(cell(row)).html];
  return isRowHeader
    ? html`<th${attribute('class', classes)} scope="row" role="rowheader"${about}>${shown}</th>`
    : html`<td${attribute('class', classes)} role="cell"${about}>${shown}</td>`;
}

function lookOf<Row>(look: Look<Row> | undefined, row: Row): string | false | undefined {
  return typeof look === 'function' ? look(row) : look;
}

/** @returns nothing for an attribute without a value. */
function attribute(name: string, value: string | false | undefined): Html | false {
  return value ? html` ${name}="${value}"` : false;
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

// The log can't be erased, so it has operators by their ids. What the directory calls them stands in a table that can,
// and is put beside the id where it is shown.

/** What the directory calls operators, by their ids. */
export type OperatorNames = ReadonlyMap<string, string>;

/** For a terminal, which draws fields that have the id alone, and for a page that could not read the names. */
export const NO_NAMES: OperatorNames = new Map();

/** Says who acted: `Kari Nordmann (b81e4c7a-2d3f…)`, or the id as it is where no name is known. */
export function operatorText(id: string, names: OperatorNames): string {
  const name = names.get(id);
  return name === undefined ? id : `${name} (${shortId(id)})`;
}

/** More people than act here: every page reads them all. */
const MOST_NAMES = 1000;

/** The SQL of all names as one object, which `namesIn` takes. */
export const OPERATOR_NAMES = `(
    select coalesce(json_object_agg(subject, name), '{}')
    from (select subject, name from operator_names order by seen_at desc limit ${MOST_NAMES}) as seen
  )`;

export function namesIn(found: Readonly<Record<string, string>>): OperatorNames {
  return new Map(Object.entries(found));
}

/** A moment of a history. */
export interface Moment {
  readonly at: string;
  /** The state that it began; null for an operator's action. */
  readonly state: State | null;
  readonly what: Part;
  readonly tookMs?: number;
  /** An error, what followed, an operator's reason. */
  readonly notes: readonly Part[];
  /** What a component elsewhere answered, safe to show with its line breaks. The same as before is not shown again. */
  readonly answer?: { readonly text: string; readonly isRepeated: boolean } | null;
}

export const SAME_ANSWER = 'the same answer as before';

/** Draws a history for a browser, oldest first. */
export function timeline(moments: readonly Moment[], now: string): Html {
  return html`<ol class="tl">
    ${moments.map(({ at, state, what, tookMs, notes, answer }) => {
      const { tone, icon } = LOOKS[state ?? 'operator'];
      const shown = notes.map((note) => phraseOf(note).html).filter((note) => note !== null && note !== '');
      return html`<li class="${tone}">
        ${icon}<b>${time(at, now)}</b> ${phraseOf(what).html}${
          tookMs !== undefined && html` <span class="muted nowrap">· ${duration(tookMs)}</span>`
        }${shown.map((note) => html`<span class="w">${note}</span>`)}${answer && answerBox(answer, at, now)}
      </li>`;
    })}
  </ol>`;
}

function answerBox({ text, isRepeated }: NonNullable<Moment['answer']>, at: string, now: string): Html {
  if (isRepeated) return html`<span class="w">${SAME_ANSWER}</span>`;
  return html`<pre class="code answer" tabindex="0" role="region" aria-label="Answer at ${timeText(at, now)}">
${text}</pre>`;
}
