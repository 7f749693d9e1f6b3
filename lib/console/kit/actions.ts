import { LONGEST_REASON } from '../../bus/deliveries/operations/replay-request.ts';
import type { Scope } from '../../platform/http/operation.ts';
import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import type { PageContext } from './layout.ts';
import { HOME, replayPath, withParameters } from './links.ts';
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
  { refusesReplay }: PageContext,
): Html {
  return refusesReplay(topic, subscriber)
    ? html`<span class="muted small">refuses replays</span>`
    : replayLink(of, query);
}

/** Makes the delivery that holds a lane due at once. */
export function retryForm(deliveryId: string, of: string, { url }: PageContext): Html {
  return html`<form method="post" action="${deliveryAction(deliveryId, 'retry')}">
    ${nextField(url)}<button class="btn sm">Retry now<span class="vh"> ${of}</span></button>
  </form>`;
}

/** Makes the next probe of a subscriber that does not answer due at once. */
export function probeForm(subscriber: string, { url }: PageContext, look: 'sm' | 'primary' = 'sm'): Html {
  return html`<form method="post" action="${subscriberAction(subscriber, 'probe')}">
    ${nextField(url)}<button class="btn ${look}">Probe now<span class="vh"> ${subscriber}</span></button>
  </form>`;
}

/** Takes one dead letter out of the counts, for a reason. @param isHalting whether its lane waits for that. */
export function dismissLetterForm(
  deliveryId: string,
  of: string,
  isHalting: boolean,
  { url }: PageContext,
): Html {
  return reasonForm({
    button: html`Dismiss…<span class="vh"> ${of}</span>`,
    path: `${HOME}/dead-letters/${encodeURIComponent(deliveryId)}/dismiss`,
    text: html`<b>Never replay it?</b> It leaves the counts, and can still be replayed until the event is
      pruned.${isHalting && ' Its lane goes on without it.'}`,
    fields: html`${nextField(url)} ${reasonField('for example: booked by hand')}`,
    submit: html`<button class="btn sm">Dismiss this dead letter<span class="vh">: ${of}</span></button>`,
  });
}

/** Gives up the delivery that holds a lane, for a reason. */
export function skipForm(deliveryId: string, of: string, { url }: PageContext): Html {
  return reasonForm({
    button: html`Skip…<span class="vh"> ${of}</span>`,
    path: deliveryAction(deliveryId, 'skip'),
    text: 'The delivery becomes a dead letter, which can be replayed. The next one in its lane is delivered.',
    fields: html`${nextField(url)} ${reasonField('for example: answered by phone')}`,
    submit: html`<button class="btn sm">Skip this delivery<span class="vh"> of ${of}</span></button>`,
  });
}

/** Holds back a subscriber's deliveries, of one topic or of all. */
export function pauseForm(subscriber: string, topic: string, { url }: PageContext): Html {
  return reasonForm({
    button: html`Pause…<span class="vh"> ${subscriber}</span>`,
    path: subscriberAction(subscriber, 'pause'),
    text: 'Its deliveries wait until someone resumes it. Nothing is lost.',
    fields: html`${nextField(url)} ${reasonField('for example: maintenance until 18:00')}`,
    submit: html`<div class="acts">
      <button class="btn sm" name="topic" value="${topic}">
        Pause this topic<span class="vh">: ${subscriber}</span>
      </button>
      <button class="btn sm">Pause all its topics<span class="vh">: ${subscriber}</span></button>
    </div>`,
  });
}

/** Ends a pause. @param topic of the pause; null: of all the subscriber's topics. */
export function resumeForm(subscriber: string, topic: string | null, { url }: PageContext): Html {
  return html`<form method="post" action="${subscriberAction(subscriber, 'resume')}">
    ${nextField(url)} ${topic !== null && hiddenField('topic', topic)}
    <button class="btn sm">Resume<span class="vh"> ${subscriber}</span></button>
  </form>`;
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
export function reasonField(placeholder: string, hint = 'Logged with your name'): Html {
  return html`<label class="f">
    Reason <span class="hint">${hint}</span>
    <input
      name="reason"
      required
      pattern="${NOT_BLANK}"
      maxlength="${LONGEST_REASON}"
      title="Say why: it is kept in the operator log"
      autocomplete="off"
      placeholder="${placeholder}"
    />
  </label>`;
}

export function hiddenField(name: string, value: string): Html {
  return html`<input type="hidden" name="${name}" value="${value}" />`;
}

/** Names the page to come back to. */
function nextField(url: URL): Html {
  return hiddenField('next', withParameters(url, {}));
}

function deliveryAction(deliveryId: string, action: 'retry' | 'skip'): string {
  return `${HOME}/deliveries/${encodeURIComponent(deliveryId)}/${action}`;
}

function subscriberAction(subscriber: string, action: 'pause' | 'resume' | 'probe'): string {
  return `${HOME}/subscribers/${encodeURIComponent(subscriber)}/${action}`;
}
