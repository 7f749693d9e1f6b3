import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { CHECK_ICON, DEAD_ICON } from '../kit/icons.ts';
import { layout } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { smokePath } from '../kit/links.ts';
import { quantity } from '../kit/words.ts';
import type { Examination } from './read.ts';
import { brokenIn, promisesOf } from './words.ts';

/** Draws the promises of the bus, the ids that contradict one, and where alerts go. */
export function doctorPage(view: Examination, context: PageContext, alerts?: Html): Html {
  const content = html`<div class="panel">
    <h1>Doctor</h1>
    <p class="muted">
      ${leadOf(view)} After a deployment, a <a href="${smokePath()}">smoke test</a> shows what arrives where.
    </p>
    <ul class="checks">
      ${promisesOf(view).map(promiseItem)}
    </ul>
    ${view.settings.map((sentence) => html`<p class="muted">${sentence}</p>`)} ${alerts}
  </div>`;
  return layout({ title: 'Doctor', section: 'doctor', content }, context);
}

function leadOf(view: Examination): string {
  const checked = `Checked the promises of the bus on the newest ${quantity(view.events, 'event')}.`;
  const broken = brokenIn(view);
  return `${checked} ${broken === 0 ? 'All are kept.' : `${quantity(broken, 'promise')} broken.`}`;
}

function promiseItem({ promise, contradictions }: ReturnType<typeof promisesOf>[number]): Html {
  if (contradictions.length === 0) return html`<li class="ok">${CHECK_ICON}<span>${promise}</span></li>`;
  return html`<li class="dead">
    ${DEAD_ICON}
    <div>
      <b>Broken: ${promise}</b>
      ${contradictions.map((contradiction) => html`<span class="s">${contradiction.html}</span>`)}
    </div>
  </li>`;
}
