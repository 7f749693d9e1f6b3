import { html } from '../../platform/markup.ts';
import { visibleName } from '../../platform/visible.ts';
import {
  errorPhrase,
  inConsole,
  inTerminal,
  link,
  mono,
  say,
  statePhrase,
  styled,
  when,
} from '../kit/document.ts';
import type { Facts, Phrase } from '../kit/document.ts';
import { ago, until } from '../kit/instants.ts';
import { deadLetterPath, eventPath, eventsWithPath, topicPath } from '../kit/links.ts';
import { stateWord } from '../kit/states.ts';
import { attemptsWords, quantity } from '../kit/words.ts';
import type { DeadLetter } from './delivery.ts';
import { haltWords } from './halts.ts';

/** A delivery's state, since when, or after how many attempts, and what comes next. */
export function statePhraseOf(view: DeadLetter): Phrase {
  const { state, deadLetteredAt, dismissedAt, deliveredAt, nextAttemptAt, generatedAt: now } = view;
  const tried = state === 'failing' && `, ${attemptsWords(view.failures, view.maxAttempts)}`;
  const endedAt =
    state === 'dead_lettered' ? (dismissedAt ?? deadLetteredAt) : state === 'delivered' ? deliveredAt : null;
  const named = statePhrase(state);
  const then =
    endedAt === null
      ? say`${tried}${nextAttemptAt !== null && `, next attempt ${until(nextAttemptAt, now)}`}`
      : say` at ${when(endedAt, now)}${inTerminal(` (${ago(endedAt, now)})`)}`;
  return { ...named, ...say`${named}${dismissedAt !== null && ', dismissed'}${then}` };
}

/** What is known of one delivery and its event. */
export function deadLetterFacts(view: DeadLetter): Facts {
  const { generatedAt: now, event, orderingKey, siblings, lastError, halts, replays } = view;
  return [
    ['State', { ...statePhraseOf(view), html: null }],
    lastError && ['Last error', errorPhrase(lastError)],
    halts && ['Effect', styled('red', inTerminal(haltWords(halts)))],
    ['Event id', link(eventPath(view.eventId), view.eventId)],
    ['Delivery id', inConsole(mono(view.deliveryId).html)],
    ['Topic', link(topicPath(view.topic), view.topic)],
    ['Subscriber', inTerminal(view.subscriber)],
    ['About', inTerminal(view.subject ?? '')],
    ['Producer', mono(event.producer)],
    ['Version', inTerminal(String(event.version))],
    ['Recorded', when(view.createdAt, now)],
    orderingKey !== '' && ['Ordering key', link(eventsWithPath(orderingKey), visibleName(orderingKey))],
    event.correlationId !== null && [
      'Correlation id',
      link(eventsWithPath(event.correlationId), event.correlationId),
    ],
    event.causationId !== null && ['Caused by', link(eventPath(event.causationId), event.causationId)],
    event.traceparent !== null && ['Trace', mono(event.traceparent)],
    ['Replayed', replays === 0 ? 'never' : quantity(replays, 'time')],
    ['Other subscribers', inConsole(siblings.length === 0 ? 'none' : siblings.map(siblingLink))],
  ];
}

function siblingLink({ deliveryId, subscriber, state }: DeadLetter['siblings'][number], index: number) {
  return html`${index > 0 && ', '}<a href="${deadLetterPath(deliveryId)}"
      >${subscriber} ${stateWord(state)}</a
    >`;
}
