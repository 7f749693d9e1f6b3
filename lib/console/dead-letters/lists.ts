import { html } from '../../platform/markup.ts';
import {
  below,
  errorPhrase,
  inConsole,
  link,
  mono,
  say,
  styled,
  subscriberPhrase,
  whenAndAgo,
} from '../kit/document.ts';
import type { List, Phrase } from '../kit/document.ts';
import { HALT_ICON } from '../kit/icons.ts';
import { ago, span } from '../kit/instants.ts';
import { deadLetterPath } from '../kit/links.ts';
import { failureTag, failureText, failureWords } from '../kit/states.ts';
import { count } from '../kit/words.ts';
import type { DeadLetterItem, ErrorGroup } from './fields.ts';

/** The errors of dead letters: there are seldom more than a few, and each group can be replayed as a whole. */
export function errorList(groups: readonly ErrorGroup[], now: string): List<ErrorGroup> {
  return {
    name: 'Errors',
    caption: 'Dead letters grouped by error, the largest group first',
    columns: [
      {
        label: 'Count',
        tone: 'num',
        look: 'c',
        terminal: { title: 'dead' },
        cell: (error) => styled('red', count(error.count)),
      },
      { label: 'Error', look: 'message', terminal: { isFlexible: true }, cell: groupPhrase },
      {
        label: 'Topic and subscriber',
        only: 'console',
        cell: ({ topic, subscriber }) =>
          say`${mono(topic)}${below(say`to ${subscriberPhrase(subscriber, topic)}`)}`,
      },
      { label: 'Topic', only: 'terminal', terminal: { isCut: true }, cell: ({ topic }) => topic },
      { label: 'Subscriber', only: 'terminal', cell: ({ subscriber }) => subscriber },
      {
        label: 'Dead-lettered',
        look: 'nowrap',
        terminal: { title: 'latest', leftOut: 'late' },
        cell: ({ firstAt, lastAt, isStillFailing }) => ({
          html: [
            span(firstAt, lastAt, now),
            below(isStillFailing ? STILL_FAILING : `latest ${ago(lastAt, now)}`).html,
          ],
          text: ago(lastAt, now),
        }),
      },
      {
        only: 'terminal',
        terminal: { leftOut: 'early' },
        cell: ({ isStillFailing }) => isStillFailing && STILL_FAILING,
      },
    ],
    rows: groups,
  };
}

function groupPhrase({ kind, message }: ErrorGroup): Phrase {
  const error = { kind, message };
  return {
    html: html`<span class="sig">${failureWords(error)}</span><span class="s">${failureTag(kind)}</span>`,
    text: failureText(error),
  };
}

const STILL_FAILING: Phrase = {
  html: html`<span class="dead-t">still failing</span>`,
  text: 'still failing',
  style: 'yellow',
};

export function letterList(letters: readonly DeadLetterItem[], now: string): List<DeadLetterItem> {
  return {
    name: 'Dead letters',
    caption: 'Dead letters, newest first',
    columns: [
      {
        label: 'Delivery',
        only: 'terminal',
        terminal: { isBelow: true },
        cell: ({ deliveryId }) => deliveryId,
      },
      {
        label: 'Event',
        look: 'about',
        terminal: { title: 'topic', isCut: true },
        cell: ({ deliveryId, topic, subject, isHalting }) =>
          say`${link(deadLetterPath(deliveryId), topic, 't')}${inConsole([below(subject).html, isHalting && HALTS])}`,
      },
      { label: 'Subscriber', cell: ({ subscriber, topic }) => subscriberPhrase(subscriber, topic) },
      {
        label: 'About',
        only: 'terminal',
        terminal: { isFlexible: true, leftOut: 'early' },
        cell: ({ subject }) => subject,
      },
      {
        label: 'Last error',
        look: 'message',
        terminal: { title: 'error', isFlexible: true },
        cell: ({ lastError, isHalting }) => {
          const { html: drawn, text } = errorPhrase(lastError);
          return { html: drawn, text: `${isHalting ? 'halts its lane; ' : ''}${text}` };
        },
      },
      {
        label: 'Failures',
        tone: 'num',
        only: 'console',
        cell: ({ failures, replays }) =>
          say`${failures}${replays > 0 && below(`replayed ${replays === 1 ? 'once' : `${replays} times`}`)}`,
      },
      {
        label: 'Dead-lettered',
        look: 'nowrap',
        terminal: { title: 'dead since', leftOut: 'late' },
        cell: ({ deadLetteredAt }) => whenAndAgo(deadLetteredAt, now),
      },
    ],
    rows: letters,
  };
}

const HALTS = html` <span class="tag halted" title="Its lane waits until it is replayed or dismissed."
  >${HALT_ICON}halts its lane</span
>`;
