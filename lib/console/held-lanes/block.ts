import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { firstOfLaneForms } from '../kit/actions.ts';
import { byReplay } from '../kit/doc.ts';
import type { Block } from '../kit/doc.ts';
import { errorPhrase } from '../kit/document.ts';
import type { List, Part, Phrase } from '../kit/document.ts';
import { until } from '../kit/instants.ts';
import type { PageContext } from '../kit/layout.ts';
import { eventPath } from '../kit/links.ts';
import { attemptsOf, attemptsWords, count, shortId } from '../kit/words.ts';
import type { HeldLane } from './held-lane.ts';

interface Held {
  readonly lanes: readonly HeldLane[];
  readonly now: string;
  readonly name: (lane: HeldLane) => Part;
  /** Why the retry of a lane is not at its time. */
  readonly holds: (lane: HeldLane) => 'pause' | 'outage' | null;
}

/**
 * The lanes whose first delivery waits for a retry, with the number of deliveries that wait behind it.
 *
 * @param none said where no lane is held, as a sentence without its full stop; null: nothing is said then.
 */
export function heldLanesBlock(held: Held, none: string | null): Block {
  return {
    id: 'held',
    title: 'Held lanes',
    hint: 'A lane is a subscriber’s deliveries in order. While its first delivery fails, the others wait behind it.',
    list: heldLaneList(held),
    acts: (lane: HeldLane) => [byReplay((context) => heldLaneActions(lane, context))],
    ...(none !== null && { empty: { title: none } }),
  };
}

/** Lanes whose first delivery waits for a retry. */
function heldLaneList(held: Held): List<HeldLane> {
  return {
    name: 'Held lanes',
    caption: 'Lanes whose first delivery waits for a retry, the next retry first',
    columns: [
      { label: 'Lane', isRowHeader: true, terminal: { isFlexible: true }, cell: held.name },
      { label: 'Behind it', tone: 'num', terminal: { title: 'behind' }, cell: waitingCount },
      { label: 'Held by', terminal: { title: 'delivery' }, cell: (lane) => heldBy(lane, held) },
      {
        label: 'Attempts',
        only: 'terminal',
        cell: ({ attempts, maxAttempts }) => attemptsOf(attempts, maxAttempts),
      },
      {
        label: 'Last error',
        look: 'message',
        terminal: { title: 'error', isFlexible: true },
        cell: ({ lastError }) => (lastError === null ? 'The handler asked to wait.' : errorPhrase(lastError)),
      },
      { label: 'Next', only: 'terminal', cell: (lane) => nextWords(lane, held) },
    ],
    rows: held.lanes,
  };
}

function heldBy(lane: HeldLane, held: Held): Phrase {
  const { topic, subscriber, deliveryId, eventId, subject, attempts, maxAttempts } = lane;
  return {
    html: html`<a class="mono nowrap" href="${eventPath(eventId)}#to-${subscriber}"
        >${topic} ${shortId(eventId)}</a
      >
      <span class="s">${subject !== null && `${subject}, `}${attemptsWords(attempts, maxAttempts)}</span>
      <span class="s">next attempt ${nextWords(lane, held)}</span>`,
    text: deliveryId,
  };
}

function nextWords(lane: HeldLane, { holds, now }: Held): string {
  const held = holds(lane);
  if (held === 'pause') return 'after the pause';
  return held === 'outage' ? `when ${lane.subscriber} answers again` : until(lane.nextAttemptAt, now);
}

/** Draws what can be done with the delivery that holds a lane. */
function heldLaneActions(lane: HeldLane, context: PageContext): Html {
  const { topic, subscriber, orderingKey, attempts: failures } = lane;
  const of = `${topic} to ${subscriber} ${orderingKey}`.trimEnd();
  return firstOfLaneForms({ ...lane, failures }, of, context);
}

function waitingCount({ behind, isMoreBehind }: HeldLane): Phrase {
  const words = `${isMoreBehind ? 'over ' : ''}${count(behind)}`;
  return {
    html: html`${words}<span class="vh"> ${behind === 1 ? 'delivery waits' : 'deliveries wait'}</span>`,
    text: words,
  };
}
