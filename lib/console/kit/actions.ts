import { LONGEST_REASON } from './replay-request.ts';
import { SMOKE_TEST } from '../../bus/catalog/smoke-test.ts';
import type { Scope } from '../../platform/http/operation.ts';
import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { pathOf } from './form-of.ts';
import { again } from './entered.ts';
import { costWords, undeliverableWords } from './handling.ts';
import type { PageContext } from './layout.ts';
import { replayPath, subscriberPath, withParameters } from './links.ts';
import type { Operator } from './operator.ts';

/** The server’s rule for a reason: anything but nothing. */
const NOT_BLANK = String.raw`.*\S.*`;

export const mayReplay = ({ scopes }: Operator) => scopes.has('event-bus:replay');

/** Says which scope an operator lacks, in the place of the buttons. @param action as the beginning of a sentence. */
export function missingScope(action: string, scope: Scope): Html {
  return html`<p class="muted small lacking">${action} needs the scope <code>${scope}</code>.</p>`;
}

/** Says once on a page why it has no buttons; null for those who may replay. */
export function missingReplayScope(operator: Operator): Html | null {
  return mayReplay(operator) ? null : missingScope('Replay', 'event-bus:replay');
}

/** Links to the preview of a replay. @param of names the thing to replay, for screen readers that list links. */
export function replayLink(of: string, query: Parameters<typeof replayPath>[0]): Html {
  return html`<a class="btn sm" href="${replayPath(query)}">Replay…<span class="vh"> ${of}</span></a>`;
}

/** The same for deliveries of one subscription, whose handler may refuse replays. */
export function replayLinkTo(
  { topic, subscriber }: { readonly topic: string; readonly subscriber: string },
  of: string,
  query: Parameters<typeof replayPath>[0],
  { refusesReplay, handling }: PageContext,
): Html {
  // Whoever wants another smoke test starts one.
  if (topic === SMOKE_TEST.topic) return html``;
  if (handling(topic, subscriber) === 'not_in_catalog') return settleLink(topic, subscriber);
  return refusesReplay(topic, subscriber)
    ? html`<span class="muted small">refuses replays</span>`
    : replayLink(of, query);
}

/**
 * Draws what can be done with the delivery that holds its lane: its retry, with its cost, a probe, which costs nothing, and
 * its skip; or, where this release would not deliver it, the way to what settles its subscription.
 */
export function firstOfLaneForms(
  { deliveryId, topic, subscriber, failures }: FirstOfLane,
  of: string,
  context: PageContext,
): Html {
  const handling = context.handling(topic, subscriber);
  if (handling === 'not_in_catalog') return settleLink(topic, subscriber);
  const isHeld = isPaused({ topic, subscriber }, context);
  const isHandled = handling !== 'unattached';
  const words = isHandled
    ? `Retry: ${costWords(failures, handling.maxAttempts)}.${isHeld ? '' : ' Try once: costs no attempt.'}`
    : undeliverableWords(topic, subscriber, handling);
  return html`${isHandled && actionForm('retry', { deliveryId }, { of }, context)}
    ${isHandled && !isHeld && actionForm('probe-delivery', { deliveryId }, { of }, context)}
    ${actionForm('skip', { deliveryId }, { of }, context)}
    <p class="muted small cost">${words}</p>`;
}

/** Whether an operator has paused the subscriber here: a probe would wait. */
function isPaused(
  { topic, subscriber }: { readonly topic: string; readonly subscriber: string },
  { badges }: PageContext,
): boolean {
  return (badges?.pauses ?? []).some(
    (pause) => pause.subscriber === subscriber && (pause.topic === null || pause.topic === topic),
  );
}

interface FirstOfLane {
  readonly deliveryId: string;
  readonly topic: string;
  readonly subscriber: string;
  /** Failed attempts so far. */
  readonly failures: number;
}

/** Leads to where a subscription that this release does not list is retired. */
export function settleLink(topic: string, subscriber: string): Html {
  return html`<a class="btn sm" href="${subscriberPath(subscriber)}#leaving"
    >Retire…<span class="vh"> ${subscriber} on ${topic}</span></a
  >`;
}

interface ActionForm {
  /** Names what it acts on, for screen readers that list buttons. */
  readonly of: Child;
  /** Fields beside those that the operator fills in; null leaves one out. */
  readonly hidden?: Readonly<Record<string, string | null>>;
  /** Fields above the reason. */
  readonly fields?: Child;
  /** In the place of the action's own words. */
  readonly button?: string;
  readonly question?: string;
  readonly text?: Child;
  /** After that. */
  readonly more?: Child;
  readonly submit?: Child;
  readonly look?: 'sm' | 'primary';
  readonly isLeft?: boolean;
}

/**
 * Draws an action's form: a button, or one that opens a form that asks why. It leads back to this page, which follows it.
 *
 * @param name of an action that some `actions.ts` declares. @throws TypeError for any other.
 */
export function actionForm(
  name: string,
  parameters: Readonly<Record<string, string>>,
  { of, hidden = {}, fields, look = 'sm', isLeft, ...words }: ActionForm,
  { url, actions }: PageContext,
): Html {
  const action = actions.find((one) => one.name === name);
  if (!action) throw new TypeError(`there is no action '${name}'`);
  const path = pathOf(action, parameters);
  const { asks } = action;
  const button = html`${words.button ?? action.button}${of && html`<span class="vh"> ${of}</span>`}`;
  const given = html`${hiddenField('next', withParameters(url, {}))}
  ${Object.entries(hidden).map(([field, value]) => value !== null && hiddenField(field, value))}`;
  if (!asks)
    return html`<form method="post" action="${path}">
      ${given}<button class="btn ${look}">${button}</button>
    </form>`;
  const question = words.question ?? asks.question;
  return reasonForm({
    button,
    path,
    text: html`${question !== undefined && html`<b>${question}</b> `}${words.text ?? asks.text}${words.more}`,
    fields: html`${given} ${fields}
    ${(asks.field === 'note' ? noteField : reasonField)(`for example: ${asks.example}`)}`,
    submit: html`${words.submit ?? html`<button class="btn sm">${asks.submit}${of && html`<span class="vh">: ${of}</span>`}</button>`}`,
    ...(isLeft !== undefined && { isLeft }),
  });
}

/** @param isHalting whether its lane waits for that. */
export function dismissLetterForm(
  deliveryId: string,
  of: string,
  isHalting: boolean,
  context: PageContext,
): Html {
  const more = isHalting && ' Its lane goes on without it.';
  return actionForm('dismiss', { deliveryId }, { of, more }, context);
}

/** Holds back a subscriber's deliveries, of one topic or of all. */
export function pauseForm(subscriber: string, topic: string, context: PageContext): Html {
  const submit = html`<div class="acts">
    <button class="btn sm" name="topic" value="${topic}">
      Pause this topic<span class="vh">: ${subscriber}</span>
    </button>
    <button class="btn sm">Pause all its topics<span class="vh">: ${subscriber}</span></button>
  </div>`;
  return actionForm('pause', { subscriber }, { of: subscriber, submit }, context);
}

/** Leads to the preview of what ends a subscription that this release's catalog does not list. */
export function retireLink(subscriber: string, topic: string): Html {
  return html`<a class="btn sm" href="${subscriberPath(subscriber)}/retire?topic=${encodeURIComponent(topic)}"
    >Retire…<span class="vh"> ${subscriber} on ${topic}</span></a
  >`;
}

interface ReasonForm {
  /** The words on the button that opens the form. */
  readonly button: Child;
  readonly path: string;
  readonly text: Child;
  readonly fields: Child;
  readonly submit: Html;
  /** Whether its column is left-aligned. */
  readonly isLeft?: boolean;
}

/** A form that opens below its button: its actions are logged with a reason. */
export function reasonForm({ button, path, text, fields, submit, isLeft = false }: ReasonForm): Html {
  return html`<details class="act ${isLeft ? 'left' : ''}">
    <summary class="btn sm">${button}</summary>
    <form method="post" action="${path}">
      <p class="small muted">${text}</p>
      ${fields} ${submit}
    </form>
  </details>`;
}

/** Asks why, in the operator's own words. */
export function reasonField(
  placeholder: string,
  hint = 'Logged with your name',
  entered?: PageContext['entered'],
): Html {
  const { value, invalid, message } = again('reason', entered);
  return html`<label class="f">
    Reason <span class="hint">${hint}</span>
    <input
      name="reason"
      value="${value}"
      ${invalid}
      required
      pattern="${NOT_BLANK}"
      maxlength="${LONGEST_REASON}"
      title="Say why: it is kept in the operator log"
      autocomplete="off"
      placeholder="${placeholder}"
    />
    ${message}
  </label>`;
}

/** Asks for what others should know. */
function noteField(placeholder: string): Html {
  return html`<label class="f">
    Note <span class="hint">Shown with your name</span>
    <input
      name="note"
      required
      minlength="5"
      maxlength="500"
      autocomplete="off"
      placeholder="${placeholder}"
    />
  </label>`;
}

export function hiddenField(name: string, value: string): Html {
  return html`<input type="hidden" name="${name}" value="${value}" />`;
}
