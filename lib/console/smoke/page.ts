import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { mayReplay } from '../kit/actions.ts';
import { listTable } from '../kit/document.ts';
import type { Following } from '../kit/following.ts';
import { WARNING_ICON } from '../kit/icons.ts';
import { heading, layout } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { smokePath } from '../kit/links.ts';
import { operationPage } from '../kit/operation-pages.ts';
import { alert, card, section } from '../kit/sections.ts';
import { SMOKE } from './list-page.ts';
import { attachedList, unattachedList, webhookList } from './lists.ts';
import type { SmokeTest } from './view.ts';
import { NO_RELAY, outcomeWords, topicWords } from './words.ts';

/** Draws a smoke test, or the deployment before one: what a test would be sent to. */
export function smokePage(view: SmokeTest, context: PageContext): Html {
  const { test } = view;
  const start = mayReplay(context.operator) && startForm(test !== null);
  if (test === null) {
    const lead = `Sends a test through every endpoint and subscriber. ${topicWords(view)}`;
    const content = html`${heading({ title: 'Smoke test', lead, actions: start })} ${tested(view)}`;
    return layout({ title: 'Smoke test', section: 'smoke', content }, context);
  }
  const { startedAt: requestedAt, startedBy: requestedBy, smokeTestId, origin } = test;
  return operationPage({
    kind: SMOKE,
    view: { generatedAt: view.generatedAt, requestedAt, requestedBy },
    context,
    title: 'Smoke test',
    lead: topicWords(view),
    following: followingOf(view, test),
    review: start,
    progress: tested(view),
    id: smokeTestId,
    facts: [['Webhooks', origin === null ? 'none sent' : `sent to ${origin}`]],
  });
}

/** Draws each endpoint and each subscriber, with what became of the test. */
function tested(view: SmokeTest): Html {
  const unattached = unattachedList(view);
  return html`${!view.relay.runsHere && alert('fail', WARNING_ICON, NO_RELAY)}
  ${section({
    id: 'webhooks',
    title: 'Webhooks',
    hint: view.test?.origin ? `sent to ${view.test.origin}` : 'of each provider',
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
}

function startForm(isAgain: boolean): Html {
  return html`<form method="post" action="${smokePath()}">
    <button class="btn primary">${isAgain ? 'Test again' : 'Start a smoke test'}</button>
  </form>`;
}

function followingOf(view: SmokeTest, { state, startedAt }: NonNullable<SmokeTest['test']>): Following {
  return {
    tone: state === 'arrived' ? 'ok' : state === 'failed' ? 'dead' : 'wait',
    words: html`<b>${outcomeWords(view)}</b>`,
    isSettled: state !== 'waiting',
    since: startedAt,
    now: view.generatedAt,
  };
}
