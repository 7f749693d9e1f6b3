import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { CHECK_ICON, DEAD_ICON, DOT_ICON, RETRY_ICON } from '../kit/icons.ts';

type Step = keyof typeof LOOKS;

const LOOKS = {
  done: { tone: 'ok', icon: CHECK_ICON },
  next: { tone: 'next', icon: RETRY_ICON },
  later: { tone: 'later', icon: DOT_ICON },
  failed: { tone: 'dead', icon: DEAD_ICON },
} as const;

/** Draws one step of the way out of an incident. */
export function step(look: Step, title: Child, text: Child, action: Child = null): Html {
  const { tone, icon } = LOOKS[look];
  return html`<li class="${tone}" ${look === 'next' && html`aria-current="step"`}>
    ${icon}
    <div><b>${title}</b><span class="s">${text}</span></div>
    ${action}
  </li>`;
}
