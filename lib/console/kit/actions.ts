import { again } from './entered.ts';
import { costWords, undeliverableWords } from './handling.ts';
import { pathOf } from './layout.ts';
import type { PageContext } from './layout.ts';
import { replayPath, subscriberPath, withParameters } from './links.ts';
import type { Operator } from './operator.ts';
import { pauseSentence } from './pauses.ts';
import { LONGEST_REASON } from './replay-request.ts';
import { alert } from './sections.ts';
import { capitalize } from './words.ts';
import { SMOKE_TEST } from '../../bus/catalog/smoke-test.ts';
import type { Scope } from '../../platform/http/operation.ts';
import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';

/** The server’s rule for a reason: anything but nothing. */
const NOT_BLANK = String.raw`.*\S.*`;

export const mayReplay = ({ scopes }: Operator) => scopes.has('event-bus:replay');

/** Says which scope an operator lacks, in the place of the buttons. @param action as the beginning of a sentence. */
export function missingScope(action: string, scope: Scope): Html {
  return html`<p class="muted small lacking">${action} needs the scope <code>${scope}</code>.</p>`;
}

/** Links to the preview of a replay, unless its handler refuses that. @param of names the thing, for screen readers. */
export function replayLinkTo(
  { topic, subscriber }: { readonly topic: string; readonly subscriber: string },
  of: string,
  query: Parameters<typeof replayPath>[0],
  context: PageContext,
): Html {
  // Whoever wants another smoke test starts one.
  if (topic === SMOKE_TEST.topic) return html``;
  const handling = context.handling(topic, subscriber);
  if (handling === 'not_in_catalog') return retireLink(subscriber, topic);
  return typeof handling === 'object' && handling.refusesReplays
    ? html`<span class="muted small">refuses replays</span>`
    : html`<a class="btn sm" href="${replayPath(query)}">Replay…<span class="vh"> ${of}</span></a>`;
}

/**
 * Draws what can be done with the delivery that holds its lane: its retry, with its cost, a probe, which costs nothing, and
 * its skip; or, where this release would not deliver it, the way to what settles its subscription.
 */
export function firstOfLaneForms(
  { deliveryId, topic, subscriber, failures, incidentId = null }: FirstOfLane,
  of: string,
  context: PageContext,
): Html {
  const handling = context.handling(topic, subscriber);
  if (handling === 'not_in_catalog') return retireLink(subscriber, topic);
  const isHeld = isPaused({ topic, subscriber }, context);
  const isHandled = handling !== 'unattached';
  const form = (name: string) => actionForm(name, { deliveryId }, { of, hidden: { incidentId } }, context);
  const words = isHandled
    ? `Retry: ${costWords(failures, handling.maxAttempts)}.${isHeld ? '' : ' Try once: costs no attempt.'}`
    : undeliverableWords(topic, subscriber, handling);
  return html`${isHandled && form('retry')} ${isHandled && !isHeld && form('probe-delivery')} ${form('skip')}
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
  /** The incident on whose page it is. */
  readonly incidentId?: string | null | undefined;
}

interface ActionForm {
  /** Names what it acts on, for screen readers that list buttons. */
  readonly of: Child;
  /** Fields beside those that the operator fills in; null leaves one out. */
  readonly hidden?: Readonly<Record<string, string | null>>;
  /** In the place of the action's own words. */
  readonly button?: string;
  readonly text?: string;
  readonly submit?: string;
  readonly look?: 'sm' | 'primary';
}

/**
 * Draws an action's form: a button, or one that opens a form that asks why. It leads back to this page, which follows it.
 *
 * @param name of an action that some `actions.ts` declares. @throws TypeError for any other.
 */
export function actionForm(
  name: string,
  parameters: Readonly<Record<string, string>>,
  { of, hidden = {}, look = 'sm', ...words }: ActionForm,
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
  return reasonForm({
    button,
    path,
    text: words.text ?? asks.text,
    fields: html`${given}
    ${reasonField(`for example: ${asks.example}`, asks.field === 'note' ? 'Shown with your name' : undefined, undefined, asks.field)}`,
    submit: html`<button class="btn sm">
      ${words.submit ?? asks.submit}${of && html`<span class="vh">: ${of}</span>`}
    </button>`,
  });
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
  name: 'reason' | 'note' = 'reason',
): Html {
  const { value, invalid, message } = again(name, entered);
  return html`<label class="f">
    ${capitalize(name)} <span class="hint">${hint}</span>
    <input
      name="${name}"
      value="${value}"
      ${invalid}
      required
      pattern="${NOT_BLANK}"
      maxlength="${LONGEST_REASON}"
      autocomplete="off"
      placeholder="${placeholder}"
    />
    ${message}
  </label>`;
}

export function hiddenField(name: string, value: string): Html {
  return html`<input type="hidden" name="${name}" value="${value}" />`;
}

/**
 * Says on a page that what it is about is paused, with the button that ends it.
 *
 * @param of a subscriber on one topic, or on all.
 */
export function pauseAlerts(
  of: { readonly subscriber: string; readonly topic: string | null },
  now: string,
  context: PageContext,
): Html {
  const found = (context.badges?.pauses ?? []).filter(
    ({ subscriber, topic }) =>
      subscriber === of.subscriber && (topic === null || of.topic === null || topic === of.topic),
  );
  return html`${found.map((one) =>
    alert(
      'fail',
      pauseSentence(one, now, context.names).html,
      mayReplay(context.operator) &&
        actionForm(
          'resume',
          { subscriber: one.subscriber },
          { of: `${one.subscriber} for ${one.topic ?? 'all its topics'}`, hidden: { topic: one.topic } },
          context,
        ),
    ),
  )}`;
}
