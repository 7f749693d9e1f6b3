import type { ChannelName } from '../../components/alerts/claim-alerts.ts';
import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { actionForm, mayReplay } from '../kit/actions.ts';
import { CHECK_ICON, DEAD_ICON, WARNING_ICON } from '../kit/icons.ts';
import { layout } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { alertsPath } from '../kit/links.ts';
import { section } from '../kit/sections.ts';
import { capitalize, joinNames } from '../kit/words.ts';
import { SET_ONE, alertLines, answerWords, channelWords } from './lines.ts';
import type { AlertLine } from './lines.ts';
import type { AlertState, AlertTargets, TestAlert } from './read.ts';

/** Says in one line where alerts go, for the overview. */
export function alertsLine(targets: AlertTargets): Html {
  return html`<p class="muted small note">${targetWords(targets)} <a href="${alertsPath()}">Alerts</a></p>`;
}

/** Says where alerts go, in one sentence. */
function targetWords({ channels }: AlertTargets): string {
  if (channels.length === 0) return 'Nobody is notified of incidents.';
  return `Alerts about incidents go to ${joinNames(channels.map(({ channel, to }) => `${to} (${channelWords(channel)})`))}.`;
}

/** Draws where alerts go, what became of them, and a button that tries each channel. */
export function alertsList(state: AlertState, now: string, context: PageContext): Html {
  const lines = alertLines(state, now).map(({ tone, words, details }) =>
    lineItem(tone, capitalize(words), details?.html),
  );
  const content = html`<ul class="checks">
      ${lines}
    </ul>
    ${
      state.channels.length > 0 &&
      mayReplay(context.operator) &&
      html`<div class="acts note">
        ${actionForm('test-alert', {}, { of: null }, context)}
        ${state.channels.length > 1 && state.channels.map(({ channel }) => testForm(channel, context))}
      </div>`
    }`;
  return section({ id: 'alerts', title: 'Alerts', content });
}

function testForm(channel: ChannelName, context: PageContext): Html {
  const words = { of: null, hidden: { channel }, button: `Test ${channelWords(channel)}` };
  return actionForm('test-alert', {}, words, context);
}

const ICONS = { ok: CHECK_ICON, fail: WARNING_ICON, dead: DEAD_ICON };

function lineItem(tone: AlertLine['tone'], words: Child, details?: Child): Html {
  const content = details
    ? html`<div>${words}<span class="s">${details}</span></div>`
    : html`<span>${words}</span>`;
  return html`<li class="${tone}">${ICONS[tone]}${content}</li>`;
}

/** A flow that fails is seen nowhere else. */
const TEAMS_NOTE =
  'A workflow of Teams answers before it posts. If no card appears, the run history of the workflow in Power Automate says why.';

/** Draws what became of a test alert. */
export function testAlertPage({ channels }: TestAlert, context: PageContext): Html {
  const content = html`<div class="panel">
    <h1>Test alert</h1>
    <ul class="checks">
      ${channels.map((tried) => {
        const name = `${channelWords(tried.channel)} to ${tried.to}`;
        return tried.error === null
          ? lineItem('ok', `${name}: ${answerWords(tried)}`)
          : lineItem('dead', html`<b>${name}: not accepted</b>`, answerWords(tried));
      })}
      ${channels.length === 0 && lineItem('fail', 'No channel is configured', capitalize(SET_ONE))}
    </ul>
    ${channels.some(({ channel }) => channel === 'teams') && html`<p class="muted small note">${TEAMS_NOTE}</p>`}
    <p><a href="${alertsPath()}">Back to the incidents</a></p>
  </div>`;
  return layout({ title: 'Test alert', section: null, content }, context);
}
