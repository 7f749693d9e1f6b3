import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { actionForm, mayReplay, missingScope, replayLinkTo } from './actions.ts';
import { factsOf, inConsole, listTable, phraseOf, timeline } from './document.ts';
import type { Facts, List, ListColumn, Moment, OperatorNames, Part } from './document.ts';
import { filterBar } from './filters.ts';
import type { Filtered } from './filters.ts';
import { alert, card, emptyCard, TONE_ICONS } from './sections.ts';
import type { Tone } from './sections.ts';
import { layout, liveness } from './layout.ts';
import type { PageContext, Section } from './layout.ts';
import { payloadSection } from './payload.ts';
import type { ShownPayload } from './payload.ts';
import { dismissPath, HOME, withParameters } from './links.ts';
import type { replayPath } from './links.ts';

// A view in words, once: a browser and a terminal draw the same document.

/** Says a view. @param names of operators; a terminal has none. */
export type Says<View> = (view: View, names: OperatorNames) => Doc;

export interface Doc {
  readonly title: Part;
  /** The title of the tab, which browsers keep, where `title` is not free of personal data. */
  readonly tab?: string;
  /** A sentence about it. */
  readonly lead?: Part;
  readonly section: Section;
  /** When it was read. */
  readonly at: string;
  /** How often a page refreshes itself; 15 s by default. Null: it never changes. */
  readonly refreshSeconds?: number | null;
  /** Whether a browser without script loads it again by itself: it has no form that this would undo. */
  readonly isReloaded?: boolean;
  readonly back?: readonly [path: string, words: string];
  /** The most important news. What is a function, only a browser draws. */
  readonly alerts?: readonly (Alert | ((context: PageContext) => Child) | false | null)[];
  readonly acts?: readonly (Act | false | null)[];
  readonly filters?: Filtered;
  readonly blocks: readonly (Block | false | null)[];
  /** Of a list with a cursor: that of the next page; null: there is none. */
  readonly nextCursor?: string | null;
  /** Commands that a terminal suggests, beside those of the acts. */
  readonly next?: readonly (Suggestion | false | null | undefined)[];
}

/** A command, after the words that say what it is for: `['To cancel one', 'cancel-timer <eventId>']`. */
export type Suggestion = readonly [why: string, line: string];

/** What can be done: a browser has its button, a terminal the command. */
export interface Act {
  readonly button: (context: PageContext) => Child;
  readonly command?: Suggestion;
}

export interface Alert {
  readonly tone: Tone;
  readonly words: Part;
  readonly act?: Act | false | null;
}

/** A part of a document. Without a title it has no heading. */
export type Block = {
  /** Of the section, to be linked to. */
  readonly id: string;
  readonly title?: Part;
  /** Defines a term, or says how a list is sorted. */
  readonly hint?: Part;
} & (
  | { readonly facts: Facts }
  | ListBlock
  // Sentences with a mark, each with what else is to be said of it.
  | { readonly items: readonly Item[] }
  | HistoriesBlock
  | { readonly payload: ShownPayload }
  // What only a browser draws: a form, cards, a chart; and what a terminal writes in its place.
  | { readonly drawn: (context: PageContext) => Child; readonly lines?: readonly Part[] }
);

interface ListBlock {
  // oxlint-disable-next-line typescript/no-explicit-any -- of whatever rows
  readonly list: List<any>;
  /** What can be done with a row, in a browser. */
  readonly acts?: (row: any) => readonly (Act | false | null)[]; // oxlint-disable-line typescript/no-explicit-any -- as above
  /** Its rows are checked, and then replayed or dismissed together. */
  // oxlint-disable-next-line typescript/no-explicit-any -- as above
  readonly bulk?: Bulk<any> | false;
  /** In the place of an empty list; by default nothing is drawn. */
  readonly empty?: Empty;
}

export interface Item {
  readonly tone: Tone;
  readonly words: Part;
  /** Below it, the first more important than the others. */
  readonly details: readonly Part[];
  readonly acts?: readonly (Act | false | null)[];
}

/** What has a history: a browser draws each as a timeline, with its buttons, a terminal as lines, with its commands. */
interface HistoriesBlock {
  readonly histories: readonly History[];
  /** In the place of none, as a sentence without its full stop. */
  readonly none?: string;
}

/** The history of one thing, such as a delivery. */
export interface History {
  readonly id: string;
  readonly title: Part;
  /** Each is a paragraph, or a line. */
  readonly words: readonly Part[];
  /** Oldest first. */
  readonly moments: readonly Moment[];
  readonly acts: readonly (Act | false | null)[];
}

export interface Empty {
  /** As a sentence, without its full stop. */
  readonly title: string;
  readonly text?: Part;
  readonly act?: Act | false;
}

/** Has an action that some `actions.ts` declares be done. */
export function does(
  name: string,
  parameters: Readonly<Record<string, string>>,
  words: Parameters<typeof actionForm>[2],
  command?: Suggestion,
): Act {
  return byReplay((context) => actionForm(name, parameters, words, context), command);
}

/** Leads to the preview of a replay of what a subscription has. @param of names what is replayed, for screen readers. */
export function replays(
  to: { readonly topic: string; readonly subscriber: string },
  of: string,
  query: Parameters<typeof replayPath>[0],
  command?: Suggestion,
): Act {
  return byReplay((context) => replayLinkTo(to, of, query, context), command);
}

/** Leads to the preview of the dismissal of one dead letter. @param incident the one on whose page it is. */
export function dismisses(
  deliveryId: string,
  of: string,
  { incident, command }: { readonly incident?: string | undefined; readonly command?: Suggestion } = {},
): Act {
  const path = dismissPath({ deliveryIds: deliveryId, incident });
  return byReplay(
    () => html`<a class="btn sm" href="${path}">Dismiss…<span class="vh"> ${of}</span></a>`,
    command,
  );
}

/** Leads to another page. @param of names what it leads to, for screen readers. */
export function leads(path: string, words: string, of: string, command?: Suggestion): Act {
  const link = html`<a class="btn sm quiet" href="${path}">${words}<span class="vh"> ${of}</span></a>`;
  return { button: () => link, ...(command && { command }) };
}

/** What only those see who may replay. */
export function byReplay(button: Act['button'], command?: Suggestion): Act {
  return { button: (context) => mayReplay(context.operator) && button(context), ...(command && { command }) };
}

const REFRESH_SECONDS = 15;

/** Draws a document for a browser. */
export function drawPage(doc: Doc, context: PageContext): Html {
  const { title, lead, at, refreshSeconds = REFRESH_SECONDS, back, alerts = [], acts = [], filters } = doc;
  const { isReloaded = false, tab = phraseOf(title).text, section: entry, blocks, nextCursor = null } = doc;
  const content = html`${back && html`<p class="back"><a href="${back[0]}">← ${back[1]}</a></p>`}
    <div class="head">
      <div>
        <h1>${phraseOf(title).html}</h1>
        <p>${phraseOf(lead).html}</p>
      </div>
      ${actsOf(acts, context)} ${refreshSeconds !== null && liveness(at, refreshSeconds, context.url)}
    </div>
    ${filters && filterBar(filters)}
    ${!mayReplay(context.operator) && missingScope('Acting', 'event-bus:replay')}
    ${alerts.map((one) => {
      if (!one) return null;
      if (typeof one === 'function') return one(context);
      return alert(one.tone, phraseOf(one.words).html, one.act && one.act.button(context));
    })}
    ${blocks.map((block) => block && drawBlock(block, at, context))} ${cursorPager(nextCursor, context.url)}`;
  return layout({ title: tab, section: entry, refreshSeconds, isReloaded, content }, context);
}

/** @param at when it was read. */
function drawBlock(block: Block, at: string, context: PageContext): Child {
  const { id, title, hint } = block;
  const content = contentOf(block, at, context);
  if (title === undefined || content === null || content === false) return content;
  const said = phraseOf(hint).html;
  return html`<section id="${id}" aria-labelledby="h-${id}">
    <div class="bar">
      <h2 id="h-${id}">${phraseOf(title).html}</h2>
      ${said !== null && html`<span class="muted small">${said}</span>`}
    </div>
    ${content}
  </section>`;
}

function contentOf(block: Block, at: string, context: PageContext): Child {
  if ('payload' in block)
    return card(html`<div class="detail">${payloadSection(block.payload, context)}</div>`);
  if ('facts' in block) return card(factsOf(block.facts, 'roomy'));
  if ('histories' in block) return historiesCard(block, at, context);
  if ('drawn' in block) return block.drawn(context);
  if ('items' in block) return block.items.length > 0 && card(drawItems(block.items, context));
  const { list, acts, bulk, empty } = block;
  if (list.rows.length === 0) {
    if (!empty) return null;
    const { act } = empty;
    return emptyCard(empty.title, phraseOf(empty.text).html, act && act.button(context));
  }
  const actions = acts && ((row: unknown) => acts(row).map((act) => act && act.button(context)));
  const isBulk = bulk !== undefined && bulk !== false && mayReplay(context.operator);
  const table = listTable(list, { before: isBulk && bulkCheck(bulk), ...(actions && { actions }) });
  return isBulk ? bulkForm(table, bulk, context) : card(table);
}

function historiesCard({ histories, none }: HistoriesBlock, at: string, context: PageContext): Html | null {
  if (histories.length === 0) return none === undefined ? null : emptyCard(none);
  return card(
    html`<ul class="histories">
      ${histories.map(
        ({ id, title, words, moments, acts }) =>
          html`<li id="${id}">
            <div>
              <h3>${phraseOf(title).html}</h3>
              ${words.map((one) => phraseOf(one).html).map((one) => one && html`<p>${one}</p>`)}
            </div>
            <div>${moments.length > 0 && timeline(moments, at)}</div>
            ${actsOf(acts, context)}
          </li>`,
      )}
    </ul>`,
  );
}

function actsOf(acts: Doc['acts'] = [], context: PageContext): Child {
  const buttons = acts.map((act) => act && act.button(context));
  return buttons.some(Boolean) && html`<div class="acts">${buttons}</div>`;
}

function drawItems(items: readonly Item[], context: PageContext): Html {
  return html`<ul class="incidents" data-alert>
    ${items.map(({ tone, words, details, acts }) => {
      const [first, ...others] = details.map((detail) => phraseOf(detail).html).filter(Boolean);
      return html`<li class="${tone}">
        ${TONE_ICONS[tone]}
        <div>
          ${phraseOf(words).html} ${first !== undefined && html`<p class="small">${first}</p>`}
          ${others.length > 0 && html`<p class="s">${others.map((one, place) => [place > 0 && ' · ', one])}</p>`}
        </div>
        ${actsOf(acts, context)}
      </li>`;
    })}
  </ul>`;
}

/** Links the other pages of a list that is read by cursors; null where it has one page. */
function cursorPager(nextCursor: string | null, url: URL): Html | null {
  const isFirst = !url.searchParams.has('cursor');
  if (isFirst && nextCursor === null) return null;
  const to = (cursor: string | null) => withParameters(url, { cursor });
  return html`<nav class="pager" aria-label="Pages">
    <span class="grow"></span>
    ${!isFirst && html`<a class="btn sm" href="${to(null)}" rel="first">Newest</a>`}
    ${nextCursor !== null && html`<a class="btn sm" href="${to(nextCursor)}" rel="next">Older</a>`}
  </nav>`;
}

/** A list whose rows are checked, and then replayed or dismissed together after one preview. */
interface Bulk<Row> {
  readonly field: 'group' | 'deliveryIds';
  readonly valueOf: (row: Row) => string;
  /** Names a row for screen readers. */
  readonly nameOf: (row: Row) => string;
  /** What a row is, where that has to be said. */
  readonly one?: string;
  /** Fields beside those that are checked. */
  readonly hidden?: Child;
  readonly isReplayable?: (context: PageContext) => boolean;
}

/** Makes the column of check boxes. */
function bulkCheck<Row>({ field, valueOf, nameOf }: Bulk<Row>): ListColumn<Row> {
  return {
    heading: SELECT_ALL,
    tone: 'check',
    cell: (row) =>
      inConsole(
        html`<input
          type="checkbox"
          name="${field}"
          value="${valueOf(row)}"
          data-box
          aria-label="Select ${nameOf(row)}"
        />`,
      ),
  };
}

const SELECT_ALL = html`<span class="vh" data-nojs>Select</span>
  <input type="checkbox" aria-label="Select all on this page" data-js data-all />`;

/** Draws the form around such a list. With the script, its buttons appear when something is selected. */
function bulkForm<Row>(
  list: Html,
  { one, hidden, isReplayable = () => true }: Bulk<Row>,
  context: PageContext,
): Html {
  const selected = one === undefined ? 'selected' : `selected ${one}s`;
  return html`<form class="card" method="get" action="${HOME}/replay" data-bulk>
    ${hidden} ${list}
    <div class="bulk">
      <span class="grow"
        ><span data-js
          ><b data-selected>0 selected</b> <span class="muted small">on this page</span></span
        ></span
      >
      <button class="btn sm quiet" type="button" data-js data-clear>Clear selection</button>
      <button class="btn sm" formaction="${HOME}/dismiss">Dismiss ${selected}…</button>
      ${isReplayable(context) && html`<button class="btn sm primary" data-bulk-button="${selected}">Replay ${selected}…</button>`}
    </div>
  </form>`;
}
