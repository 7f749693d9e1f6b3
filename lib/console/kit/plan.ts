import * as z from 'zod';

import type { Scope } from '../../platform/http/operation.ts';
import { Problem } from '../../platform/http/problem.ts';
import { requireValid, validated } from '../../platform/http/validated.ts';
import type { Content } from '../../platform/http/validated.ts';
import { html } from '../../platform/markup.ts';
import type { Child } from '../../platform/markup.ts';
import { hiddenField, missingScope, reasonField } from './actions.ts';
import type { Doc } from './doc.ts';
import { say, strong } from './document.ts';
import type { Facts, List, Part } from './document.ts';
import { again } from './entered.ts';
import { alert, withLinks } from './sections.ts';
import type { PageContext, Section } from './layout.ts';
import { paceWords } from './progress.ts';
import type { Operated } from './replay-request.ts';
import { capitalize, joinNames } from './words.ts';

/** What an operation would do, said once: a browser and a terminal draw it, and then ask. */
export interface Plan {
  /** The object of its verb: `3 dead letters`. */
  readonly what: string;
  /** How many there are. Many are confirmed by typing their number. */
  readonly matched: number;
  readonly warnings?: Warnings;
  readonly facts: Facts;
  // oxlint-disable-next-line typescript/no-explicit-any -- of whatever rows
  readonly list?: List<any> | false;
  /** What is sent to begin it: what was previewed, its number, and an id. */
  readonly request: Readonly<
    Record<string, string | number | boolean | readonly string[] | null | undefined>
  >;
  /** A text that is typed to confirm it, however many there are. */
  readonly typed?: string;
  /** How many a minute it takes; null: all at once. Where it is left out, it can't be paced. */
  readonly perMinute?: number | null;
  /** What a page offers below it. */
  readonly below?: (context: PageContext) => Child;
  /** Where else to go. */
  readonly cancel: string;
  /** Says why there is nothing to do: there is no way to begin it then. */
  readonly nothing?: Part | false;
  /** Whether that is because what was asked for by name can't be done. */
  readonly isRefused?: boolean;
}

interface Receiver {
  readonly subscriber: string;
  readonly attached: boolean;
  readonly paused: boolean;
  readonly isStillFailing?: boolean;
}

const WAITING = 'What they get waits until';

const NOT_WELL = [
  ['not attached', `${WAITING} they have a handler or an endpoint.`, ({ attached }) => !attached],
  ['paused', `${WAITING} someone resumes them.`, ({ paused }) => paused],
  [
    'still failing',
    'What they get now will probably fail too.',
    ({ attached, paused, isStillFailing = false }) => attached && !paused && isStillFailing,
  ],
] as const satisfies readonly (readonly [string, string, (one: Receiver) => boolean])[];

/** Warns of receivers that will not take what they get. */
export function receiverWarnings(receivers: readonly Receiver[]): Warnings {
  return NOT_WELL.map(([words, then, isSo]) => {
    const names = [...new Set(receivers.filter(isSo).map(({ subscriber }) => subscriber))];
    const named =
      names.length > MOST_NAMED
        ? [...names.slice(0, MOST_NAMED), `${names.length - MOST_NAMED} more`]
        : names;
    return names.length > 0 && [`${joinNames(named)} ${names.length === 1 ? 'is' : 'are'} ${words}.`, then];
  });
}

/** A warning names no more. */
const MOST_NAMED = 3;

/** The most important first: a fact to know before, and what follows from it. */
export type Warnings = readonly (readonly [fact: Part, consequence: Part] | false)[];

/** How the page of a plan is drawn. */
export interface PlanPage {
  /** `replay`, `replayed`, and what it then is: `replay`. */
  readonly verb: string;
  readonly past: string;
  readonly noun: string;
  readonly section: Section;
  readonly scope: Scope;
  /** Of a reason: an example, and what to know about it. */
  readonly reason: readonly [example: string, hint?: string];
}

/** Says a plan: below it a page has its form, and a command asks. @param title a verb and its object. */
export function planDoc(plan: Plan, page: PlanPage, title = `${capitalize(page.verb)} ${plan.what}?`): Doc {
  const { verb, past, noun, section } = page;
  const { matched, warnings = [], list, facts, perMinute, nothing, cancel, below } = plan;
  const pace = perMinute !== undefined && (['Pace', paceWords(perMinute, matched)] as const);
  return {
    title: nothing ? `Nothing to ${verb}` : title,
    tab: capitalize(verb),
    lead: nothing || `Nothing has been ${past} yet. This is what the ${noun} would do.`,
    section,
    at: new Date().toISOString(),
    refreshSeconds: null,
    ...(nothing && { back: [cancel, 'Back'] }),
    alerts: warnings.map((one) => one && { tone: 'fail', words: say`${strong(one[0])} ${one[1]}` }),
    blocks: [
      !nothing && list ? { id: 'list', list } : null,
      !nothing && { id: 'facts', facts: [...facts, pace] },
      !nothing && { id: 'form', drawn: (context) => planForm(plan, page, context) },
      below ? { id: 'another', drawn: below } : null,
    ],
  };
}

/** Draws the form that begins it. It is sent to the plan's own path. */
function planForm(plan: Plan, { verb, scope, reason }: PlanPage, context: PageContext): Child {
  const { what, request, cancel } = plan;
  const { entered } = context;
  const title = capitalize(verb);
  const wrong = entered?.wrong[''];
  if (!context.operator.scopes.has(scope))
    return html`${scope !== 'event-bus:replay' && missingScope(title, scope)}<a class="btn" href="${cancel}"
        >Cancel</a
      >`;
  return html`<div class="panel">
    <form method="post" action="${context.url.pathname}">
      ${wrong !== undefined && alert('fail', withLinks(wrong))} ${requestFields(request)} ${paceField(plan)}
      ${reasonField(`for example: ${reason[0]}`, reason[1], entered)} ${confirmField(plan, verb, entered)}
      <div class="end">
        <a class="btn" href="${cancel}">Cancel</a>
        <button class="btn primary">${title} ${what}</button>
      </div>
    </form>
  </div>`;
}

/** The previewed request as hidden fields, so that what is done is exactly what was previewed. */
function requestFields(request: Plan['request']): Child {
  return Object.entries(request).map(([name, value]) => {
    const text = typeof value === 'object' ? (value ?? []).join(',') : String(value ?? '');
    return !FILLED_IN.has(name) && text !== '' && hiddenField(name, text);
  });
}

/** Fields that the operator fills in, and one that only tries. */
const FILLED_IN: ReadonlySet<string> = new Set(['dryRun', 'reason', 'perMinute']);

function paceField({ matched, perMinute }: Plan): Child {
  if (perMinute === undefined || matched < 2) return null;
  return html`<label class="f">
    Deliveries a minute <span class="hint">Empty: all at once</span>
    <input
      name="perMinute"
      inputmode="numeric"
      autocomplete="off"
      pattern="[0-9]{1,7}"
      title="A whole number, or nothing"
      value="${perMinute}"
    />
  </label>`;
}

/** More than fits on a screen: typing the number proves that it was read. */
const CONFIRMED_ABOVE = 100;

/** Asks for a text to be typed, or for the number, where there are many. The server says beside the field what is wrong. */
function confirmField({ typed, matched }: Plan, verb: string, entered: PageContext['entered']): Child {
  if (typed === undefined && matched <= CONFIRMED_ABOVE) return null;
  const { value, invalid, message } = again('confirm', entered);
  return html`<label class="f">
    Type ${typed ?? matched} to confirm
    ${typed === undefined && html`<span class="hint">Required to ${verb} more than ${CONFIRMED_ABOVE}</span>`}
    <input name="confirm" value="${value}" ${invalid} required autocomplete="off" spellcheck="false" />
    ${message}
  </label>`;
}

/** Fields of the form beyond the request: the page it came from, and the number typed to confirm. */
const confirmedForm = z.looseObject({ confirm: z.string().optional(), next: z.string().optional() });

/**
 * Reads the form of a plan, whose number has to be typed where it is large.
 *
 * @param typed what is to be typed in its place.
 * @throws Problem 400 `validation_failed` or `not_confirmed`.
 */
export function readConfirmedForm<Request extends Pick<Operated, 'expectedCount' | 'dryRun'>>(
  content: Content,
  form: z.ZodType<Request>,
  typed: (request: Request) => string | null = () => null,
): Request {
  const { confirm, next: _, ...fields } = validated(content, confirmedForm);
  const request = requireValid(fields, form);
  const { expectedCount = 0, dryRun } = request;
  const wanted = typed(request) ?? String(expectedCount);
  const isNeeded = typed(request) !== null || confirm !== undefined || expectedCount > CONFIRMED_ABOVE;
  if (!dryRun && isNeeded && ![confirm?.trim(), confirm?.replaceAll(/\D/g, '')].includes(wanted))
    throw new Problem('not_confirmed', { detail: `Type ${wanted} to confirm.` });
  return request;
}
