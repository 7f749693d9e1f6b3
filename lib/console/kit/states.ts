import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import {
  CHECK_ICON,
  CLOCK_ICON,
  DEAD_ICON,
  PAUSE_ICON,
  PERSON_ICON,
  RETRY_ICON,
  SILENT_ICON,
} from './sections.ts';
import type { LastError } from './shapes.ts';

/** How states of deliveries and of subscribers look: a shape and a colour in a browser, a colour and a sign in a terminal. */
export const LOOKS = {
  pending: { tone: '', icon: CLOCK_ICON, style: 'dim', mark: '·' },
  failing: { tone: 'fail', icon: RETRY_ICON, style: 'yellow', mark: '!' },
  dead_lettered: { tone: 'dead', icon: DEAD_ICON, style: 'red', mark: '✗' },
  delivered: { tone: 'ok', icon: CHECK_ICON, style: 'green', mark: '✓' },
  delivering: { tone: 'ok', icon: CHECK_ICON, style: 'green', mark: '✓' },
  ready: { tone: '', icon: CHECK_ICON, style: 'dim', mark: '·' },
  outage: { tone: 'dead', icon: SILENT_ICON, style: 'red', mark: '✗' },
  paused: { tone: 'fail', icon: PAUSE_ICON, style: 'yellow', mark: '!' },
  unattached: { tone: '', icon: CLOCK_ICON, style: 'dim', mark: '·' },
  /** In a history: what an operator did. */
  operator: { tone: 'act', icon: PERSON_ICON, style: 'bold', mark: '' },
} as const;

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
