import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { actionForm, mayReplay, missingReplayScope, replayLinkTo } from './actions.ts';
import { bulkCheck, bulkForm } from './bulk.ts';
import type { Bulk } from './bulk.ts';
import { factsOf, listTable, phraseOf } from './document.ts';
import type { Facts, List, Part } from './document.ts';
import { filterBar } from './filters.ts';
import type { Filtered } from './filters.ts';
import { CHECK_ICON, DEAD_ICON, WARNING_ICON } from './icons.ts';
import { timeline } from './history.ts';
import type { Moment } from './history.ts';
import { heading, layout, liveness } from './layout.ts';
import type { PageContext } from './layout.ts';
import type { replayPath } from './links.ts';
import type { Section } from './navigation.ts';
import type { OperatorNames } from './operator-names.ts';
import { cursorPager } from './pager.ts';
import { payloadSection } from './payload.ts';
import type { ShownPayload } from './payload.ts';
import { alert, card, emptyCard, emptyLine, section } from './sections.ts';

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
  readonly back?: readonly [path: string, words: string];
  /** The most important news. What is a function, only a browser draws. */
  readonly alerts?: readonly (Alert | ((context: PageContext) => Child) | false | null)[];
  readonly acts?: readonly (Act | false | null)[];
  readonly filters?: Filtered;
  readonly blocks: readonly (Block | false | null)[];
  /** Of a list with a cursor: that of the next page; null: there is none. */
  readonly nextCursor?: string | null;
  /** That of the page before, where the list can be read backwards. */
  readonly previousCursor?: string | null;
  /** Which part of the list is shown. */
  readonly position?: Part;
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

interface Alert {
  readonly tone: 'dead' | 'fail' | 'ok';
  readonly icon: Html;
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
} & (FactsBlock | ListBlock | ItemsBlock | HistoriesBlock | PayloadBlock | DrawnBlock);

interface FactsBlock {
  readonly facts: Facts;
}

interface ListBlock {
  // oxlint-disable-next-line typescript/no-explicit-any -- of whatever rows
  readonly list: List<any>;
  /** What can be done with a row, in a browser. */
  // oxlint-disable-next-line typescript/no-explicit-any -- as above
  readonly acts?: (row: any) => readonly (Act | false | null)[];
  /** The words that it is folded away below, in a browser. */
  readonly folded?: string;
  /** Its rows are checked, and then replayed or dismissed together. */
  // oxlint-disable-next-line typescript/no-explicit-any -- as above
  readonly bulk?: Bulk<any> | false;
  /** In the place of an empty list; by default nothing is drawn. */
  readonly empty?: Empty;
  /** Below it in a browser: the links to its other pages, where the document has several lists. */
  readonly below?: (context: PageContext) => Child;
}

/** Sentences with a mark, each with what else is to be said of it. */
interface ItemsBlock {
  readonly items: readonly Item[];
}

export interface Item {
  readonly tone: keyof typeof ITEM_ICONS;
  readonly words: Part;
  /** Below it, the first more important than the others. */
  readonly details: readonly Part[];
}

const ITEM_ICONS = { dead: DEAD_ICON, fail: WARNING_ICON, ok: CHECK_ICON };

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

/** What an event says, beside the facts of it. */
interface PayloadBlock {
  readonly payload: ShownPayload;
  readonly facts: Facts;
}

/** What only a browser draws: a chart, a form, cards; and what a terminal writes in its place. */
interface DrawnBlock {
  readonly drawn: (context: PageContext) => Child;
  readonly lines?: readonly Part[];
}

export interface Empty {
  readonly icon?: Html;
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
  const {
    tab = phraseOf(title).text,
    section: entry,
    blocks,
    nextCursor = null,
    previousCursor,
    position,
  } = doc;
  const content = html`${back && html`<p class="back"><a href="${back[0]}">← ${back[1]}</a></p>`}
  ${heading({
    title: phraseOf(title).html,
    lead: phraseOf(lead).html,
    actions: actsOf(acts, context),
    live: refreshSeconds !== null && liveness(at, refreshSeconds, context.url),
  })}
  ${filters && filterBar(filters)} ${missingReplayScope(context.operator)}
  ${alerts.map((one) => {
    if (!one) return null;
    if (typeof one === 'function') return one(context);
    return alert(one.tone, one.icon, phraseOf(one.words).html, one.act && one.act.button(context));
  })}
  ${blocks.map((block) => block && drawBlock(block, at, context))}
  ${cursorPager(nextCursor, context.url, phraseOf(position).html, previousCursor)}`;
  return layout({ title: tab, section: entry, refreshSeconds, content }, context);
}

/** @param at when it was read. */
function drawBlock(block: Block, at: string, context: PageContext): Child {
  const { id, title, hint } = block;
  if ('payload' in block)
    return card(
      html`<div class="detail">
        ${payloadSection(block.payload, context)}
        <section aria-labelledby="h-${id}">
          <h2 id="h-${id}">${phraseOf(title).html}</h2>
          ${factsOf(block.facts)}
        </section>
      </div>`,
    );
  const content = contentOf(block, at, context);
  if (title === undefined || content === null || content === false) return content;
  const said = phraseOf(hint).html;
  return section({ id, title: phraseOf(title).html, content, ...(said !== null && { hint: said }) });
}

function contentOf(block: Exclude<Block, PayloadBlock>, at: string, context: PageContext): Child {
  if ('facts' in block) return card(factsOf(block.facts, 'roomy'));
  if ('histories' in block) return historiesCard(block, at, context);
  if ('drawn' in block) return block.drawn(context);
  if ('items' in block) return block.items.length > 0 && card(drawItems(block.items));
  const { list, acts, bulk, folded, empty, title, below } = block;
  if (list.rows.length === 0) {
    if (!empty) return null;
    const { text, act, ...shown } = empty;
    const action = act ? act.button(context) : null;
    if (title === undefined) return emptyCard({ ...shown, text: phraseOf(text).html, action });
    return html`${card(emptyLine(`${empty.title}.`))} ${below?.(context)}`;
  }
  const actions = acts && ((row: unknown) => acts(row).map((act) => act && act.button(context)));
  const isBulk = bulk !== undefined && bulk !== false && mayReplay(context.operator);
  const table = listTable(list, { before: isBulk && bulkCheck(bulk), ...(actions && { actions }) });
  const shown =
    folded === undefined
      ? table
      : html`<details class="more">
          <summary>${folded}</summary>
          ${table}
        </details>`;
  return html`${isBulk ? bulkForm(table, bulk, context) : card(shown)} ${below?.(context)}`;
}

function historiesCard({ histories, none }: HistoriesBlock, at: string, context: PageContext): Html | null {
  if (histories.length === 0) return none === undefined ? null : card(emptyLine(`${none}.`));
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

/** Draws items below each other. @param look a class of the list. */
export function drawItems(items: readonly Item[], look = ''): Html {
  return html`<ul class="incidents ${look}">
    ${items.map(({ tone, words, details }) => {
      const [first, ...others] = details.map((detail) => phraseOf(detail).html).filter(Boolean);
      return html`<li class="${tone}">
        ${ITEM_ICONS[tone]}
        <div>
          ${phraseOf(words).html} ${first !== undefined && html`<p class="small">${first}</p>`}
          ${others.length > 0 && html`<p class="s">${others.map((one, place) => [place > 0 && ' · ', one])}</p>`}
        </div>
      </li>`;
    })}
  </ul>`;
}
