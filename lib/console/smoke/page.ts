import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { mayReplay } from '../kit/actions.ts';
import { CHECK_ICON, CLOCK_ICON, DEAD_ICON, PAUSE_ICON, WARNING_ICON } from '../kit/icons.ts';
import { ago, duration, timeText } from '../kit/instants.ts';
import { heading, layout, liveness } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { eventPath, smokePath } from '../kit/links.ts';
import { alert, card, section } from '../kit/sections.ts';
import { subscriberLink } from '../kit/subscriber-link.ts';
import { table } from '../kit/table.ts';
import { count } from '../kit/words.ts';
import type { SmokeSubscriber, SmokeTest, SmokeWebhook } from './view.ts';
import {
  deliveredAfterMs,
  outcomeWords,
  placeWords,
  recipientWords,
  stateWords,
  topicWords,
} from './words.ts';

/** While something has not arrived yet. */
const REFRESH_SECONDS = 2;

/** Draws a smoke test, or the deployment before one. */
export function smokePage(view: SmokeTest, context: PageContext): Html {
  const { test, subscribers } = view;
  const attached = subscribers.filter(({ state }) => state !== 'unattached');
  const unattached = subscribers.filter(({ toAttach }) => toAttach !== null);
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
    content: card(webhookTable(view)),
  })}
  ${section({
    id: 'attached',
    title: 'Attached subscribers',
    hint: 'each gets the test event',
    content: card(attachedTable(attached)),
  })}
  ${
    unattached.length > 0 &&
    section({
      id: 'unattached',
      title: 'Not attached',
      hint: 'their deliveries wait, in order',
      content: card(unattachedTable(unattached, view.generatedAt)),
    })
  }`;
  const refreshSeconds = test?.state === 'waiting' ? REFRESH_SECONDS : null;
  return layout({ title: 'Smoke test', section: 'doctor', refreshSeconds, content }, context);
}

const NO_RELAY =
  'This deployment does not relay, so no test event is sent: set RELAY=on if its database is its own.';

function leadOf(view: SmokeTest): string {
  const { test, generatedAt } = view;
  if (test === null) return `Sends a test through every endpoint and subscriber. ${topicWords(view)}`;
  return `Started ${timeText(test.startedAt, generatedAt)} by ${test.startedBy}. ${topicWords(view)}`;
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

type State = SmokeWebhook['state'] | SmokeSubscriber['state'];

function stateLabel(state: State): Html {
  const [tone, icon] = TONES[state] ?? ['', CLOCK_ICON];
  return html`<span class="state ${tone}">${icon}${stateWords(state)}</span>`;
}

const TONES: Partial<Record<State, readonly [string, Html]>> = {
  arrived: ['ok-t', CHECK_ICON],
  failed: ['dead-t', DEAD_ICON],
  misconfigured: ['dead-t', DEAD_ICON],
  paused: ['', PAUSE_ICON],
  not_configured: ['', WARNING_ICON],
  not_tested: ['', WARNING_ICON],
};

function webhookTable({ webhooks }: SmokeTest): Html {
  return table({
    name: 'Webhooks',
    columns: [
      {
        label: 'Provider',
        isRowHeader: true,
        cell: ({ provider, scheme }) => html`${provider}<span class="s">${scheme}</span>`,
      },
      { label: 'Test', cell: outcomeOf },
      {
        label: 'Answer',
        tone: 'num',
        cell: ({ status, durationMs }) =>
          html`${status ?? '–'}${durationMs !== null && html`<span class="s">${duration(durationMs)}</span>`}`,
      },
      { label: 'Delivered to', cell: recipientsOf },
      { label: 'After', tone: 'num', cell: (webhook) => durationOrDash(deliveredAfterMs(webhook)) },
    ],
    rows: webhooks,
    rowLook: '',
  });
}

function outcomeOf({ state, problem }: SmokeWebhook | SmokeSubscriber): Html {
  return html`${stateLabel(state)}${problem !== null && html`<span class="s">${problem}</span>`}`;
}

function recipientsOf(webhook: SmokeWebhook): Child {
  const { eventId } = webhook;
  const to = recipientWords(webhook);
  return eventId !== null && to !== '' ? html`<a href="${eventPath(eventId)}">${to}</a>` : '–';
}

function durationOrDash(ms: number | null): string {
  return ms === null ? '–' : duration(ms);
}

function attachedTable(subscribers: readonly SmokeSubscriber[]): Html {
  return table({
    name: 'Attached subscribers',
    columns: [
      {
        label: 'Subscriber',
        isRowHeader: true,
        cell: ({ subscriber, place }) =>
          html`${subscriberLink(subscriber)}<span class="s">${placeWords(place)}</span>`,
      },
      { label: 'Test', cell: outcomeOf },
      { label: 'After', tone: 'num', cell: ({ afterMs }) => durationOrDash(afterMs) },
      {
        label: 'Topics',
        tone: 'num',
        cell: ({ topics }) => `${count(topics.attached)} of ${count(topics.listed)}`,
      },
    ],
    rows: subscribers,
    rowLook: '',
  });
}

function unattachedTable(subscribers: readonly SmokeSubscriber[], now: string): Html {
  return table({
    name: 'Not attached',
    columns: [
      { label: 'Subscriber', isRowHeader: true, cell: ({ subscriber }) => subscriberLink(subscriber) },
      {
        label: 'Topics',
        tone: 'num',
        cell: ({ topics }) => `${count(topics.listed - topics.attached)} of ${count(topics.listed)}`,
      },
      {
        label: 'Waiting',
        tone: 'num',
        cell: ({ waiting: { deliveries, oldestAt } }) =>
          html`${count(deliveries)}${oldestAt !== null && html`<span class="s">oldest ${ago(oldestAt, now)}</span>`}`,
      },
      { label: 'To attach it', cell: ({ toAttach }) => toAttach },
    ],
    rows: subscribers,
    rowLook: '',
  });
}
