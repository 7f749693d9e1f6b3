import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { mayReplay } from '../kit/actions.ts';
import { CHECK_ICON, DEAD_ICON, WARNING_ICON } from '../kit/icons.ts';
import { timeAndAgo } from '../kit/instants.ts';
import { layout } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { HOME } from '../kit/links.ts';
import { capitalize, joinNames, quantity } from '../kit/words.ts';
import type { AlertState, AlertTargets, TestAlert } from './read.ts';

/** Says in one line where alerts go, for the overview. */
export function alertsLine(targets: AlertTargets): Html {
  return html`<p class="muted small note">
    ${targetWords(targets)} <a href="${HOME}/doctor#alerts">Alerts</a>
  </p>`;
}

/** Says where alerts go, in one sentence. */
function targetWords({ channels }: AlertTargets): string {
  if (channels.length === 0) return 'Nobody is notified of incidents.';
  return `Alerts about incidents go to ${joinNames(channels.map(({ channel, to }) => `${to} (${channel})`))}.`;
}

/** Draws where alerts go, what became of them, and a button that tries each channel. */
export function alertsList(state: AlertState, now: string, { operator }: PageContext): Html {
  const { channels, heartbeat, problems } = state;
  return html`<section id="alerts" aria-labelledby="h-alerts">
    <h2 id="h-alerts">Alerts</h2>
    <ul class="checks">
      ${
        channels.length === 0 &&
        html`<li class="fail">
          ${WARNING_ICON}
          <div>
            Nobody is notified of incidents<span class="s"
              >set <code>ALERT_EMAIL</code> or <code>ALERT_WEBHOOK_URL</code></span
            >
          </div>
        </li>`
      }
      ${channels.map((channel) => channelItem(channel, now))}
      ${
        heartbeat
          ? html`<li class="ok">${CHECK_ICON}<span>The relay calls a watcher outside each minute</span></li>`
          : html`<li class="fail">
              ${WARNING_ICON}
              <div>
                Nobody outside notices a relay that stands still<span class="s"
                  >set <code>HEARTBEAT_URL</code></span
                >
              </div>
            </li>`
      }
      ${problems.map((problem) => html`<li class="dead">${DEAD_ICON}<span>${problem}</span></li>`)}
    </ul>
    ${
      channels.length > 0 &&
      mayReplay(operator) &&
      html`<form class="end" method="post" action="${HOME}/alerts/test">
        <button class="btn sm">Send a test alert</button>
      </form>`
    }
  </section>`;
}

function channelItem(one: AlertState['channels'][number], now: string): Html {
  const { channel, to, lastSentAt, unsent, givenUp, lastError } = one;
  const owed = [
    unsent > 0 && `${quantity(unsent, 'alert')} to be sent${lastError === null ? '' : ' again'}`,
    givenUp > 0 && `${quantity(givenUp, 'alert')} given up`,
  ].filter((words) => words !== false);
  const isFailing = lastError !== null;
  return html`<li class="${isFailing ? 'dead' : 'ok'}">
    ${isFailing ? DEAD_ICON : CHECK_ICON}
    <div>
      ${capitalize(channel)} to ${to}
      <span class="s">
        ${lastSentAt === null ? 'none sent yet' : html`last sent ${timeAndAgo(lastSentAt, now)}`}
        ${owed.length > 0 && html`<br />${joinNames(owed)}${isFailing && `: ${lastError}`}`}
      </span>
    </div>
  </li>`;
}

/** Draws what became of a test alert. */
export function testAlertPage({ channels }: TestAlert, context: PageContext): Html {
  const content = html`<div class="panel">
    <h1>Test alert</h1>
    <ul class="checks">
      ${channels.map(({ channel, to, error }) =>
        error === null
          ? html`<li class="ok">${CHECK_ICON}<span>${channel} to ${to}: accepted</span></li>`
          : html`<li class="dead">
              ${DEAD_ICON}
              <div><b>${channel} to ${to}: not accepted</b><span class="s">${error}</span></div>
            </li>`,
      )}
      ${channels.length === 0 && html`<li class="fail">${WARNING_ICON}<span>No channel is configured</span></li>`}
    </ul>
    <p><a href="${HOME}/doctor#alerts">Back to the doctor</a></p>
  </div>`;
  return layout({ title: 'Test alert', section: null, content }, context);
}
