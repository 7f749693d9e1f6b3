import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { CHECK_ICON, CLOCK_ICON, DEAD_ICON, RETRY_ICON } from './icons.ts';
import type { LastError, State } from './shapes.ts';

const WORDS = {
  pending: 'pending',
  failing: 'failing',
  dead_lettered: 'dead-lettered',
  delivered: 'delivered',
} as const;

const LABELS = {
  pending: html`<span class="state">${CLOCK_ICON}${WORDS.pending}</span>`,
  failing: html`<span class="state fail-t">${RETRY_ICON}${WORDS.failing}</span>`,
  dead_lettered: html`<span class="state dead-t">${DEAD_ICON}${WORDS.dead_lettered}</span>`,
  delivered: html`<span class="state ok-t">${CHECK_ICON}${WORDS.delivered}</span>`,
};

/** Draws a state as a shape, a word and a colour. */
export function stateLabel(state: State): Html {
  return LABELS[state];
}

export function stateWord(state: State): string {
  return WORDS[state];
}

/** Draws the kind of a failure: an HTTP answer with its status, a timeout, or the name of an exception. */
export function failureTag(kind: string): Html {
  const status = statusOf(kind);
  if (status !== null) return html`<span class="tag http">HTTP ${status}</span>`;
  if (/timeout/i.test(kind)) return html`<span class="tag timeout">Timeout</span>`;
  return html`<span class="tag">${kind}</span>`;
}

/** Draws a failure's kind and its message. */
export function failureLabel({ kind, message }: LastError): Html {
  return html`<span class="err">${failureTag(kind)}<span>${message}</span></span>`;
}

/** Says how a subscriber's last attempt failed, as a clause: `its last answer was 503`. */
export function lastFailureClause({ kind }: LastError): Html {
  const status = statusOf(kind);
  if (status !== null) return html`its last answer was ${status}`;
  return html`its last attempt failed with <span class="mono">${kind}</span>`;
}

/** The message, after its status where it does not name it: `503 Service Unavailable`. */
export function failureWords({ kind, message }: LastError): string {
  const status = statusOf(kind);
  return status === null || message.includes(status) ? message : `${status} ${message}`;
}

/** An error with its kind, unless the message says it: `TypeError: the ledger is down`. */
export function failureText({ kind, message }: LastError): string {
  const words = failureWords({ kind, message });
  return /^http/i.test(kind) || words === '' ? words || kind : `${kind}: ${words}`;
}

/** The status of an HTTP answer that is no success; null for another error. */
export function statusOf(kind: string): string | null {
  return /^http_?(\d{3})$/i.exec(kind)?.[1] ?? null;
}
