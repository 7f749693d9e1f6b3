import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { CHECK_ICON, DEAD_ICON } from '../kit/icons.ts';
import { layout } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { deadLetterPath, eventPath, smokePath } from '../kit/links.ts';
import { count, quantity } from '../kit/words.ts';
import type { Examination } from './read.ts';

/** Draws the promises of the bus, the ids that contradict one, and where alerts go. */
export function doctorPage(view: Examination, context: PageContext, alerts?: Html): Html {
  const content = html`<div class="panel">
    <h1>Doctor</h1>
    <p class="muted">
      ${leadOf(view)} After a deployment, a <a href="${smokePath()}">smoke test</a> shows what arrives where.
    </p>
    <ul class="checks">
      ${view.checked.map((promise) => promiseItem(promise, view))}
    </ul>
    ${view.settings.map((sentence) => html`<p class="muted">${sentence}</p>`)} ${alerts}
  </div>`;
  return layout({ title: 'Doctor', section: 'doctor', content }, context);
}

function leadOf({ events, findings }: Examination): string {
  const checked = `Checked the promises of the bus on the newest ${quantity(events, 'event')}.`;
  const broken = new Set(findings.map(({ promise }) => promise)).size;
  return `${checked} ${broken === 0 ? 'All are kept.' : `${quantity(broken, 'promise')} broken.`}`;
}

function promiseItem(promise: string, { findings }: Examination): Html {
  const contradictions = findings.filter((finding) => finding.promise === promise);
  if (contradictions.length === 0) return html`<li class="ok">${CHECK_ICON}<span>${promise}</span></li>`;
  return html`<li class="dead">
    ${DEAD_ICON}
    <div>
      <b>Broken: ${promise}</b>
      ${contradictions.map(
        ({ count: number, what, examples }) =>
          html`<span class="s">
            ${count(number)} ${what}: ${examples.map(exampleId)}${number > examples.length && ', …'}
          </span>`,
      )}
    </div>
  </li>`;
}

function exampleId(id: string, index: number): Html {
  const path = UUID.test(id) ? eventPath(id) : DELIVERY_ID.test(id) ? deadLetterPath(id) : null;
  const shown =
    path === null
      ? html`<span class="mono nowrap">${id}</span>`
      : html`<a class="mono nowrap" href="${path}">${id}</a>`;
  return html`${index > 0 && ', '}${shown}`;
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const DELIVERY_ID = /^\d{1,18}-\d{1,18}$/;
