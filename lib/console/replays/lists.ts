import { html } from '../../platform/markup.ts';
import { actWords } from '../kit/acts.ts';
import { below, inConsole, link, say, subscriberPhrase, whenAndAgo } from '../kit/document.ts';
import type { List, Phrase } from '../kit/document.ts';
import {
  backfilledPath,
  deadLetterPath,
  erasurePath,
  eventPath,
  incidentPath,
  replayedPath,
  topicPath,
} from '../kit/links.ts';
import { reasonOrNone } from '../kit/operation-pages.ts';
import { operatorText } from '../kit/operator-names.ts';
import type { OperatorNames } from '../kit/operator-names.ts';
import { capitalize, count, shortId } from '../kit/words.ts';
import type { OperatorAction } from './read.ts';

/** What operators did otherwise than to replay. */
export function actionList(
  actions: readonly OperatorAction[],
  now: string,
  names: OperatorNames,
): List<OperatorAction> {
  return {
    name: 'Other actions',
    caption: 'Other actions of operators, newest first',
    columns: [
      { label: 'When', look: 'nowrap', cell: ({ at }) => whenAndAgo(at, now) },
      {
        label: 'What',
        look: 'nowrap',
        cell: ({ action, deliveries }) => capitalize(actWords(action, deliveries)),
      },
      { label: 'On', look: 'nowrap', cell: targetPhrase },
      actions.some(({ progress }) => progress !== null) && {
        label: 'How far',
        look: 'nowrap',
        cell: farWords,
      },
      { label: 'Who', look: 'nowrap', cell: ({ operator }) => operatorText(operator, names) },
      {
        label: 'Why',
        look: 'message',
        cell: ({ reason }) => ({ html: reasonOrNone(reason), text: reason ?? '' }),
      },
    ],
    rows: actions,
  };
}

/** Says how far a backfill or an erasure is; null for any other action. */
export function farWords({ action, progress }: OperatorAction): string | null {
  if (progress === null) return null;
  const { done, of, endedAt } = progress;
  const words = `${count(done)} of ${count(of)} ${action === 'erase' ? 'overwritten' : 'written'}`;
  return endedAt === null ? `under way, ${words}` : words;
}

/** Names a delivery, an event, or a subscriber of one topic or of all. */
export function targetPhrase(action: OperatorAction): Phrase {
  const { topic, subscriber, deliveryId, eventId, incidentId, replayId, backfillId, erasureId } = action;
  const of = topic ?? undefined;
  if (erasureId !== null)
    return { html: html`<a href="${erasurePath(erasureId)}">a person’s data</a>`, text: 'a person’s data' };
  const where = topic === null ? 'all topics' : link(topicPath(topic), topic, 'roomy');
  const to = subscriber !== null && say`to ${subscriberPhrase(subscriber, of)}`;
  const delivery = deliveryId !== null && say`, delivery ${link(deadLetterPath(deliveryId), deliveryId)}`;
  const event =
    eventId !== null && say`event ${{ ...link(eventPath(eventId), shortId(eventId)), text: eventId }}`;
  const pages = inConsole([
    incidentId !== null && html`, <a href="${incidentPath(incidentId)}">incident</a>`,
    replayId !== null && html`, <a href="${replayedPath(replayId)}">replay</a>`,
    backfillId !== null && html`, <a href="${backfilledPath(backfillId)}">progress</a>`,
  ]);
  return say`${where}${below(say`${to}${delivery}${event}${pages}`)}`;
}
