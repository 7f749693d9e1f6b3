import type { Examination } from './read.ts';
import { CHECK_ICON, DEAD_ICON } from '../page/icons.ts';
import { html } from '../../markup.ts';
import type { Html } from '../../markup.ts';
import { layout } from '../page/layout.ts';
import type { PageContext } from '../page/layout.ts';
import { count, counted } from '../page/words.ts';

/** Whether the bus has kept its promises: each of them, and what contradicts it. */
export function doctorPage(view: Examination, context: PageContext): Html {
  const content = html`<div class="panel">
    <h1>Doctor</h1>
    <p class="muted">${leadOf(view)}</p>
    <ul class="goes">
      ${view.checked.map((promise) => promiseItem(promise, view))}
    </ul>
  </div>`;
  return layout({ title: 'Doctor', section: null, content }, context);
}

function leadOf({ events, findings }: Examination): string {
  const looked = `Looked at the newest ${counted(events, 'event')} and what was delivered of them.`;
  const wrong = new Set(findings.map(({ promise }) => promise)).size;
  return `${looked} ${wrong === 0 ? 'All is as it should be.' : `${counted(wrong, 'promise')} not kept.`}`;
}

function promiseItem(promise: string, { findings }: Examination): Html {
  const found = findings.filter((finding) => finding.promise === promise);
  if (found.length === 0) return html`<li><span class="state ok-t">${CHECK_ICON}</span> ${promise}</li>`;
  return html`<li>
    <span class="state dead-t">${DEAD_ICON}</span> <b>Not so: ${promise}</b>
    ${found.map(
      ({ count: number, what, examples }) =>
        html`<span class="s">
          ${count(number)} ${what}: <span class="mono">${examples.join(', ')}</span>${
            number > examples.length && ', …'
          }
        </span>`,
    )}
  </li>`;
}
