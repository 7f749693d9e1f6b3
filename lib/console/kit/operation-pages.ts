import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { reasonField, reasonForm } from './actions.ts';
import { phraseOf, say } from './document.ts';
import type { Part } from './document.ts';
import { followingRegion } from './following.ts';
import type { Following } from './following.ts';
import { timeAndAgo, timeText } from './instants.ts';
import { heading, layout, liveness } from './layout.ts';
import type { PageContext } from './layout.ts';
import { deadLettersPath } from './links.ts';
import { operationSection } from './navigation.ts';
import { operatorText } from './operator-names.ts';
import { cursorPager } from './pager.ts';
import { requestFields, warning } from './preview.ts';
import { card, factList, section, withLinks } from './sections.ts';
import type { Fact } from './sections.ts';
import { subscriberLink } from './subscriber-link.ts';
import { ACTIONS, table } from './table.ts';
import type { Column } from './table.ts';
import { capitalize, count, numberText } from './words.ts';

// The pages of an operation, which is previewed, confirmed, begun under the preview's id, followed, and listed.

const REFRESH_SECONDS = 15;

/** The names of one kind of operation. */
export interface Kind {
  /** Of one, within a sentence: `backfill`. */
  readonly one: string;
  /** Of several, as a heading: `Backfills`. */
  readonly several: string;
  /** Where they are listed: the path, and the words for that page where they are not `the list of backfills`. */
  readonly list: string;
  readonly listName?: string;
  readonly pathOf: (id: string) => string;
  /** Why one that is under way can't be stopped, as a sentence; without it, it can. */
  readonly unstoppable?: string;
}

/** Who requested an operation, when and why. A kind that nobody gives a reason for has none. */
interface Requested {
  readonly requestedAt: string;
  readonly requestedBy: string;
  readonly reason?: string | null;
}

interface ListPage {
  readonly kind: Kind;
  readonly view: { readonly generatedAt: string; readonly nextCursor: string | null };
  readonly context: PageContext;
  readonly lead: Child;
  /** What the address leaves out, such as `topic payment.captured`. */
  readonly only?: readonly string[];
  readonly content: Child;
  /** Begins a new one. */
  readonly form?: Html;
}

/** Draws the page that lists the operations of one kind, newest first. */
export function listPage({ kind, view, context, lead, only = [], content: listed, form }: ListPage): Html {
  const { several: title, list } = kind;
  const content = html`${headingOf(title, lead, view, context)}
  ${
    only.length > 0 &&
    html`<div class="filters bar">
      <p class="only small">Showing only: ${only.join(', ')}. <a href="${list}">Show all</a></p>
    </div>`
  }
  ${listed} ${cursorPager(view.nextCursor, context.url)} ${form}`;
  return layout(
    { title, section: operationSection(list), refreshSeconds: REFRESH_SECONDS, content },
    context,
  );
}

function headingOf(
  title: Child,
  lead: Child,
  { generatedAt }: { readonly generatedAt: string },
  { url }: PageContext,
): Html {
  return heading({ title, lead, live: liveness(generatedAt, REFRESH_SECONDS, url) });
}

/** The operations of one kind, as a browser and a terminal list them. */
export interface Listed<Row> {
  readonly kind: Kind;
  readonly rows: readonly Row[];
  readonly now: string;
  readonly id: (row: Row) => string;
  /** What a row is, where the kind has two. */
  readonly one?: (row: Row) => string;
  /** What heads the names. */
  readonly label?: string;
  /** Names what it is done to. */
  readonly name: (row: Row) => string;
  /** Whether that is a name of the catalog or of a person, and no word of ours. */
  readonly isName?: (row: Row) => boolean;
  /** Below the name. */
  readonly scope?: (row: Row) => Part;
  readonly numbers: readonly (readonly [label: string, of: (row: Row) => number | string])[];
  /** How it ended, or how far it is. */
  readonly state?: (row: Row) => Part;
}

/** Draws who did what, when and why, how far it is, and the way to the page of each. */
export function operationTable<Row extends Requested>(
  {
    kind: { one: kindOfOne, several, pathOf },
    rows,
    now,
    id,
    one = () => kindOfOne,
    label = 'What',
    name,
    isName = () => true,
    scope,
    numbers,
    state,
  }: Listed<Row>,
  { names }: PageContext,
): Html {
  return card(
    table<Row>({
      name: several,
      caption: `${several}, newest first`,
      columns: [
        { label: 'When', look: 'nowrap', cell: ({ requestedAt }) => timeAndAgo(requestedAt, now) },
        {
          label,
          cell: (row) =>
            html`<a class="t ${isName(row) && 'mono'}" href="${pathOf(id(row))}">${name(row)}</a
              >${scope && html`<span class="s">${phraseOf(scope(row)).html}</span>`}`,
        },
        { label: 'Who', look: 'nowrap', cell: ({ requestedBy }) => operatorText(requestedBy, names) },
        rows.some(({ reason }) => reason !== undefined) && {
          label: 'Why',
          look: 'message',
          cell: ({ reason }) => reasonOrNone(reason ?? null),
        },
        ...numbers.map(([heads, of]): Column<Row> => {
          return { label: heads, tone: 'num', cell: (row) => numberText(of(row)) };
        }),
        state !== undefined && { label: 'State', look: 'nowrap', cell: (row) => phraseOf(state(row)).html },
        {
          ...ACTIONS,
          cell: (row) =>
            html`<div class="acts">
              <a class="btn sm quiet" href="${pathOf(id(row))}"
                >Details<span class="vh">
                  of the ${one(row)} of ${name(row)} at ${timeText(row.requestedAt, now)}</span
                ></a
              >
            </div>`,
        },
      ],
      rows,
    }),
  );
}

/** Says how an operation ended, and when. @param endedAt null while it is under way. */
export function endPhrase(how: string, endedAt: string | null, now: string): Part {
  if (endedAt === null) return 'under way';
  return say`${how} ${{ html: timeAndAgo(endedAt, now), text: timeText(endedAt, now) }}`;
}

export function reasonOrNone(reason: string | null): Child {
  return reason ?? html`<span class="muted">no reason given</span>`;
}

interface Operation {
  readonly kind: Kind;
  readonly view: Requested & { readonly generatedAt: string };
  readonly context: PageContext;
  readonly title: Child;
  readonly lead: Child;
  readonly following: Following;
  /** A button beside how it goes on. */
  readonly review?: Child;
  /** How far it is, and the form that stops it. */
  readonly progress?: Child;
  readonly id: string;
  /** What was requested beyond who, when and why, and what came of it. */
  readonly facts: readonly (Fact | false)[];
}

/** Draws one operation: how it goes on, how far it is, and what was requested. */
export function operationPage({
  kind: { one, several, list, unstoppable },
  view,
  context,
  title,
  lead,
  following,
  review,
  progress,
  id,
  facts,
}: Operation): Html {
  const name = capitalize(one);
  const known: readonly (Fact | false)[] = [
    ['Who', operatorText(view.requestedBy, context.names)],
    ['When', timeAndAgo(view.requestedAt, view.generatedAt)],
    view.reason !== undefined && ['Why', reasonOrNone(view.reason)],
    ...facts,
    !following.isSettled && unstoppable !== undefined && ['To stop it', unstoppable],
    [`${name} id`, html`<span class="mono">${id}</span>`],
  ];
  const content = html`<p class="back"><a href="${list}">← ${several}</a></p>
    ${headingOf(title, lead, view, context)} ${followingRegion(following, review)} ${progress}
    ${section({ id: 'request', title: 'Request', content: card(factList(known, 'roomy')) })}`;
  return layout(
    { title: name, section: operationSection(list), refreshSeconds: REFRESH_SECONDS, following, content },
    context,
  );
}

/** Links to what died of it. */
export function reviewLink(deadLettered: number, query: Parameters<typeof deadLettersPath>[0]): Child {
  return deadLettered > 0 && html`<a class="btn" href="${deadLettersPath(query)}">Review dead letters</a>`;
}

/** The form that stops an operation. @param text says what follows. @param example of a reason. */
export function stopForm({ one, pathOf }: Kind, id: string, text: Child, example: string): Html {
  return reasonForm({
    button: 'Stop…',
    path: `${pathOf(id)}/stop`,
    text,
    fields: reasonField(`for example: ${example}`),
    submit: html`<button class="btn sm">Stop the ${one}</button>`,
    isLeft: true,
  });
}

/** A fact that an operator should know before an operation, and what follows from it. */
export type Warning = readonly [fact: Part, consequence: Part];

/** The most important first; false leaves one out. */
export type Warnings = readonly (Warning | false)[];

export function warningLines(warnings: Warnings): Child {
  return warnings.map(
    (one) => one && warning(html`<b>${phraseOf(one[0]).html}</b> ${phraseOf(one[1]).html}`),
  );
}

/** Draws what an operation would do. @param lead says that nothing has been done yet. */
export function previewed(title: string, lead: string, warnings: Warnings, facts: Operation['facts']): Html {
  return html`<h1>${title}</h1>
    <p class="muted">${lead}</p>
    ${warningLines(warnings)} ${factList(facts)}`;
}

interface CountedSubscription {
  readonly topic: string;
  readonly subscriber: string;
  readonly count: number;
}

/** Lists how many deliveries of each topic it takes, and to whom. @param note said beside a subscriber. */
export function topicCounts<One extends CountedSubscription>(
  subscriptions: readonly One[],
  note: (one: One) => Child = () => null,
): Html {
  const topics = [...new Set(subscriptions.map(({ topic }) => topic))];
  const sumOf = (those: readonly One[]) => those.reduce((sum, one) => sum + one.count, 0);
  return html`<ul class="goes">
    ${topics.map((topic) => {
      const those = subscriptions.filter((one) => one.topic === topic);
      return html`<li>
        <b>${count(sumOf(those))}</b> <span class="mono">${topic}</span> to
        ${those.map(
          (one, place) =>
            html`${place > 0 && ', '}${subscriberLink(one.subscriber, topic)}${
              those.length > 1 && html` <span class="muted">${count(one.count)}</span>`
            }${note(one)}`,
        )}
      </li>`;
    })}
  </ul>`;
}

interface Confirmation {
  /** Whether the operator may begin it. */
  readonly isAllowed: boolean;
  /** What was previewed. */
  readonly request: Readonly<Record<string, unknown>>;
  readonly fields: Child;
  readonly button: string;
  /** Where else to go. */
  readonly cancel: string;
  readonly context: PageContext;
}

/** Draws the inside of the form that begins what was previewed. */
export function confirmation({ isAllowed, request, fields, button, cancel, context }: Confirmation): Html {
  const wrong = context.entered?.wrong[''];
  return html`${wrong !== undefined && warning(html`${withLinks(wrong)}`)}
    ${isAllowed && html`${requestFields(request)} ${fields}`}
    <div class="end">
      <a class="btn" href="${cancel}">Cancel</a>
      ${isAllowed && html`<button class="btn primary">${button}</button>`}
    </div>`;
}
