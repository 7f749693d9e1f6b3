import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { mayReplay } from '../kit/actions.ts';
import { listTable } from '../kit/document.ts';
import { CHECK_ICON, CLOCK_ICON, DEAD_ICON, WARNING_ICON } from '../kit/icons.ts';
import { time } from '../kit/instants.ts';
import { heading, layout, liveness } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { smokePath } from '../kit/links.ts';
import { alert, card, section } from '../kit/sections.ts';
import { attachedList, unattachedList, webhookList } from './lists.ts';
import type { SmokeTest } from './view.ts';
import { NO_RELAY, outcomeWords, topicWords } from './words.ts';

/** While something has not arrived yet. */
const REFRESH_SECONDS = 2;

/** Draws a smoke test, or the deployment before one. */
export function smokePage(view: SmokeTest, context: PageContext): Html {
  const { test } = view;
  const unattached = unattachedList(view);
  const content = html`${heading({
    title: 'Smoke test',
    lead: leadOf(view),
    ...(mayReplay(context.operator) && { actions: startForm(test !== null) }),
    ...(test?.state === 'waiting' && { live: liveness(view.generatedAt, REFRESH_SECONDS, context.url) }),
  })}
  ${test !== null && alert(...toneOf(test), outcomeWords(view))}
  ${!view.relay.runsHere && alert('fail', WARNING_ICON, NO_RELAY)}
  ${section({
    id: 'webhooks',
    title: 'Webhooks',
    hint: test?.origin ? `sent to ${test.origin}` : 'of each provider',
    content: card(listTable(webhookList(view))),
  })}
  ${section({
    id: 'attached',
    title: 'Attached subscribers',
    hint: 'each gets the test event',
    content: card(listTable(attachedList(view))),
  })}
  ${
    unattached.rows.length > 0 &&
    section({
      id: 'unattached',
      title: 'Not attached',
      hint: 'their deliveries wait, in order',
      content: card(listTable(unattached)),
    })
  }`;
  const refreshSeconds = test?.state === 'waiting' ? REFRESH_SECONDS : null;
  return layout({ title: 'Smoke test', section: 'smoke', refreshSeconds, content }, context);
}

function leadOf(view: SmokeTest): Child {
  const { test, generatedAt } = view;
  if (test === null) return `Sends a test through every endpoint and subscriber. ${topicWords(view)}`;
  return html`Started ${time(test.startedAt, generatedAt)} by ${test.startedBy}. ${topicWords(view)}`;
}

function startForm(isAgain: boolean): Html {
  return html`<form method="post" action="${smokePath()}">
    <button class="btn primary">${isAgain ? 'Test again' : 'Start a smoke test'}</button>
  </form>`;
}

function toneOf({ state }: NonNullable<SmokeTest['test']>): ['ok' | 'fail' | 'dead', Html] {
  if (state === 'arrived') return ['ok', CHECK_ICON];
  return state === 'failed' ? ['dead', DEAD_ICON] : ['fail', CLOCK_ICON];
}
