import type { Scope } from '../../platform/http/operation.ts';
import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { missingScope, reasonField } from './actions.ts';
import { factsOf, listTable, phraseOf } from './document.ts';
import type { Facts, List, Part } from './document.ts';
import { CHECK_ICON } from './icons.ts';
import { layout } from './layout.ts';
import type { PageContext } from './layout.ts';
import type { Section } from './navigation.ts';
import { confirmation, warningLines } from './operation-pages.ts';
import type { Warnings } from './operation-pages.ts';
import { confirmField, typedField } from './preview.ts';
import { card } from './sections.ts';
import { capitalize } from './words.ts';

/** What an operation would do, said once: a browser and a terminal draw it, and then ask. */
export interface Plan {
  /** The object of its verb: `3 dead letters`. */
  readonly what: string;
  /** How many there are. Many are confirmed by typing their number. */
  readonly matched: number;
  /** Says that nothing has been done yet. */
  readonly lead: string;
  readonly warnings?: Warnings;
  readonly facts: Facts;
  // oxlint-disable-next-line typescript/no-explicit-any -- of whatever rows
  readonly list?: List<any> | false;
  /** What is sent to begin it: what was previewed, its number, and an id. */
  readonly request: Readonly<Record<string, unknown>>;
  /** In the place of its verb and its object. */
  readonly button?: string;
  /** A text that is typed to confirm it, however many there are. */
  readonly typed?: string;
  /** How fast it goes on once it has begun, where it is paced: `40 a minute`. */
  readonly pace?: string;
  /** Fields of its form above the reason. */
  readonly fields?: (context: PageContext) => Child;
  /** What a page offers below it. */
  readonly below?: (context: PageContext) => Child;
  /** Where else to go. */
  readonly cancel: string;
  /** Said in its place where there is nothing to do. */
  readonly nothing?: Nothing | false;
}

interface Nothing {
  readonly title: string;
  /** Sentences. */
  readonly text: readonly Part[];
  readonly warnings?: Warnings;
  readonly action: readonly [path: string, words: string];
  /** Whether a terminal begins it all the same: the server then says why not, or ends what remains. */
  readonly isBegun?: boolean;
}

/** How the page of a plan is drawn. */
export interface PlanPage {
  readonly verb: string;
  readonly section: Section;
  readonly scope: Scope;
  /** Of a reason: an example, and what to know about it. */
  readonly reason: readonly [example: string, hint?: string];
}

/** Draws a plan for a browser, with the form that begins it. The form is sent to the plan's own path. */
export function drawPlan(plan: Plan, { verb, section, scope, reason }: PlanPage, context: PageContext): Html {
  const { what, matched, lead, warnings = [], facts, list, request, nothing, fields, cancel, below } = plan;
  const name = capitalize(verb);
  if (nothing)
    return layout(
      {
        title: name,
        section,
        content: html`<div class="panel">${drawNothing(nothing)} ${below?.(context)}</div>`,
      },
      context,
    );
  const isAllowed = context.operator.scopes.has(scope);
  const [example, hint] = reason;
  const content = html`<div class="panel">
    <h1>${name} ${what}?</h1>
    <p class="muted">${lead}</p>
    ${warningLines(warnings)} ${list && card(listTable(list))} ${factsOf(facts)}
    ${!isAllowed && missingScope(scope === 'event-bus:replay' ? 'Replay' : name, scope)}
    <form method="post" action="${context.url.pathname}">
      ${confirmation({
        isAllowed,
        request,
        fields: html`${fields?.(context)} ${reasonField(`for example: ${example}`, hint, context.entered)}
        ${plan.typed === undefined ? confirmField(matched, verb, context) : typedField(plan.typed, null, context.entered)}`,
        button: plan.button ?? `${name} ${what}`,
        cancel,
        context,
      })}
    </form>
    ${below?.(context)}
  </div>`;
  return layout({ title: name, section, content }, context);
}

function drawNothing({ title, text, warnings = [], action: [path, words] }: Nothing): Html {
  return html`<div class="empty">
      ${CHECK_ICON}
      <h1>${title}</h1>
      ${text.map((part) => part && html`<p>${phraseOf(part).html}</p>`)}
      <a class="btn" href="${path}">${words}</a>
    </div>
    ${warningLines(warnings)}`;
}
