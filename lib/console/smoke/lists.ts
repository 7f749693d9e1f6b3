import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { below, inConsole, say, subscriberPhrase } from '../kit/document.ts';
import type { List, Phrase, Style } from '../kit/document.ts';
import { CHECK_ICON, CLOCK_ICON, DEAD_ICON, PAUSE_ICON, WARNING_ICON } from '../kit/icons.ts';
import { ago, duration } from '../kit/instants.ts';
import { eventPath } from '../kit/links.ts';
import { count } from '../kit/words.ts';
import type { SmokeSubscriber, SmokeTest, SmokeWebhook } from './view.ts';
import { deliveredAfterMs, placeWords, recipientWords, stateWords } from './words.ts';
import type { SmokeState } from './words.ts';

export function webhookList({ webhooks }: SmokeTest): List<SmokeWebhook> {
  return {
    name: 'Webhooks',
    columns: [
      {
        label: 'Provider',
        isRowHeader: true,
        cell: ({ provider, scheme }) => say`${provider}${inConsole(html`<span class="s">${scheme}</span>`)}`,
      },
      OUTCOME,
      { label: 'Scheme', only: 'terminal', terminal: { leftOut: 'early' }, cell: ({ scheme }) => scheme },
      {
        label: 'Answer',
        tone: 'num',
        cell: ({ status, durationMs }) =>
          say`${orDash(status)}${durationMs !== null && inConsole(below(duration(durationMs)).html)}`,
      },
      {
        label: 'In',
        tone: 'num',
        only: 'terminal',
        cell: ({ durationMs }) => durationMs !== null && duration(durationMs),
      },
      { label: 'Delivered to', terminal: { isFlexible: true }, cell: recipientPhrase },
      { label: 'After', tone: 'num', cell: (webhook) => durationPhrase(deliveredAfterMs(webhook)) },
    ],
    rows: webhooks,
    rowLook: '',
  };
}

/** A browser shows a problem in its row, a terminal whole below the table: a column would cut it. */
const OUTCOME = {
  label: 'Test',
  terminal: { title: '  test' },
  cell: ({ state, problem }: SmokeWebhook | SmokeSubscriber) => ({
    ...statePhrase(state),
    html: [statePhrase(state).html, below(problem).html],
  }),
};

/** A state by a shape, a word and a colour. */
export function statePhrase(state: SmokeState): Phrase {
  const [tone, icon, style, mark = ' '] = LOOKS[state] ?? OTHER;
  return {
    html: html`<span class="state ${tone}">${icon}${stateWords(state)}</span>`,
    text: `${mark} ${stateWords(state)}`,
    ...(style && { style }),
  };
}

type Look = readonly [tone: string, icon: Html, style?: Style, mark?: string];

const FAILED: Look = ['dead-t', DEAD_ICON, 'red', '✗'];
const OTHER: Look = ['', CLOCK_ICON];

const LOOKS: Partial<Record<SmokeState, Look>> = {
  arrived: ['ok-t', CHECK_ICON, 'green', '✓'],
  waiting: ['', CLOCK_ICON, 'yellow'],
  failed: FAILED,
  misconfigured: FAILED,
  paused: ['', PAUSE_ICON, 'yellow'],
  not_configured: ['', WARNING_ICON],
  not_tested: ['', WARNING_ICON],
};

function recipientPhrase(webhook: SmokeWebhook): Phrase {
  const { eventId } = webhook;
  const to = recipientWords(webhook);
  return {
    html: eventId !== null && to !== '' ? html`<a href="${eventPath(eventId)}">${to}</a>` : '–',
    text: to,
  };
}

/** A browser shows a dash where there is none. */
function orDash(value: string | number | null): Phrase | string | number {
  return value ?? inConsole('–');
}

function durationPhrase(ms: number | null) {
  return orDash(ms === null ? null : duration(ms));
}

export function attachedList({ subscribers }: SmokeTest): List<SmokeSubscriber> {
  return {
    name: 'Attached subscribers',
    columns: [
      {
        label: 'Subscriber',
        isRowHeader: true,
        cell: ({ subscriber, place }) =>
          say`${subscriberPhrase(subscriber)}${inConsole(html`<span class="s">${placeWords(place)}</span>`)}`,
      },
      OUTCOME,
      { label: 'Runs', only: 'terminal', cell: ({ place }) => placeWords(place) },
      { label: 'After', tone: 'num', cell: ({ afterMs }) => durationPhrase(afterMs) },
      {
        label: 'Topics',
        tone: 'num',
        cell: ({ topics }) => `${count(topics.attached)} of ${count(topics.listed)}`,
      },
    ],
    rows: subscribers.filter(({ state }) => state !== 'unattached'),
    rowLook: '',
  };
}

/** Subscribers that are not attached, or not to all their topics. */
export function unattachedList({ subscribers, generatedAt: now }: SmokeTest): List<SmokeSubscriber> {
  return {
    name: 'Not attached',
    columns: [
      { label: 'Subscriber', isRowHeader: true, cell: ({ subscriber }) => subscriberPhrase(subscriber) },
      {
        label: 'Topics',
        tone: 'num',
        cell: ({ topics }) => `${count(topics.listed - topics.attached)} of ${count(topics.listed)}`,
      },
      {
        label: 'Waiting',
        tone: 'num',
        cell: ({ waiting: { deliveries, oldestAt } }) =>
          say`${count(deliveries)}${oldestAt !== null && inConsole(below(`oldest ${ago(oldestAt, now)}`).html)}`,
      },
      {
        label: 'Oldest',
        only: 'terminal',
        cell: ({ waiting: { oldestAt } }) => oldestAt !== null && ago(oldestAt, now),
      },
      { label: 'To attach it', only: 'console', cell: ({ toAttach }) => toAttach },
    ],
    rows: subscribers.filter(({ toAttach }) => toAttach !== null),
    rowLook: '',
  };
}
