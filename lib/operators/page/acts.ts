import type { Scope } from '../../http/operation.ts';
import type { Operator } from '../operator.ts';
import { HOME, replayPath } from './links.ts';
import { html } from '../../markup.ts';
import type { Child, Html } from '../../markup.ts';
import type { PageContext } from './layout.ts';

/** As a reason is kept: long enough to say something, short enough for the log. */
const SHORTEST_REASON = 5;
const LONGEST_REASON = 500;

export const mayReplay = ({ scopes }: Operator) => scopes.has('event-bus:replay');

/** Where its button would be: what an operator lacks. */
export function lacking(act: string, scope: Scope): Html {
  return html`<p class="muted small lacking">${act} needs the scope <code>${scope}</code>.</p>`;
}

/** The way to a replay's preview. @param of what is replayed, for those who hear the links one by one. */
export function replayLink(of: string, query: Parameters<typeof replayPath>[0]): Html {
  return html`<a class="btn sm" href="${replayPath(query)}">Replay…<span class="vh"> ${of}</span></a>`;
}

/** Makes the delivery that holds a lane due at once. */
export function retryForm(deliveryId: string, of: string, { url }: PageContext): Html {
  return html`<form method="post" action="${deliveryAction(deliveryId, 'retry')}">
    ${nextField(url)}<button class="btn sm">Retry now<span class="vh"> ${of}</span></button>
  </form>`;
}

/** Gives up the delivery that holds a lane, for a reason. */
export function skipForm(deliveryId: string, of: string, { url }: PageContext): Html {
  return html`<details class="act">
    <summary class="btn sm">Skip…<span class="vh"> ${of}</span></summary>
    <form method="post" action="${deliveryAction(deliveryId, 'skip')}">
      <p class="small muted">
        It becomes a dead letter, which can be replayed. Those behind it are delivered next.
      </p>
      ${nextField(url)} ${reasonField('Kept in the log with your name', 'for example: answered by phone')}
      <button class="btn sm">Skip this delivery</button>
    </form>
  </details>`;
}

/** Holds back a subscriber, of one topic or as a whole. */
export function pauseForm(subscriber: string, topic: string, { url }: PageContext): Html {
  return html`<details class="act">
    <summary class="btn sm">Pause…<span class="vh"> ${subscriber}</span></summary>
    <form method="post" action="${subscriberAction(subscriber, 'pause')}">
      <p class="small muted">Its deliveries wait until someone resumes it. Nothing is lost.</p>
      ${nextField(url)}
      ${reasonField('Kept in the log with your name', 'for example: maintenance until 18:00')}
      <div class="acts">
        <button class="btn sm" name="topic" value="${topic}">Pause this topic</button>
        <button class="btn sm">Pause all its topics</button>
      </div>
    </form>
  </details>`;
}

/** Ends a pause. @param topic of the pause; null: of all the subscriber's topics. */
export function resumeForm(subscriber: string, topic: string | null, { url }: PageContext): Html {
  return html`<form method="post" action="${subscriberAction(subscriber, 'resume')}">
    ${nextField(url)} ${topic !== null && hiddenField('topic', topic)}
    <button class="btn sm">Resume<span class="vh"> ${subscriber}</span></button>
  </form>`;
}

/** Why, in the operator's words. */
export function reasonField(hint: string, placeholder: string): Html {
  return html`<label class="f">
    Reason <span class="hint">${hint}</span>
    <input
      name="reason"
      required
      minlength="${SHORTEST_REASON}"
      maxlength="${LONGEST_REASON}"
      autocomplete="off"
      placeholder="${placeholder}"
    />
  </label>`;
}

export function hiddenField(name: string, value: Child): Html {
  return html`<input type="hidden" name="${name}" value="${value}" />`;
}

/** Where to come back to. */
function nextField(url: URL): Html {
  return hiddenField('next', url.pathname + url.search);
}

function deliveryAction(deliveryId: string, act: 'retry' | 'skip'): string {
  return `${HOME}/deliveries/${encodeURIComponent(deliveryId)}/${act}`;
}

function subscriberAction(subscriber: string, act: 'pause' | 'resume'): string {
  return `${HOME}/subscribers/${encodeURIComponent(subscriber)}/${act}`;
}
