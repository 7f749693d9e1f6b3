import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { haltedBy } from '../incidents/lists.ts';
import { dismissLetterForm, mayReplay, replayLinkTo } from '../kit/actions.ts';
import type { PageContext } from '../kit/layout.ts';
import { card, section } from '../kit/sections.ts';
import { LAST_ERROR } from '../kit/states.ts';
import { ACTIONS, table } from '../kit/table.ts';
import { count } from '../kit/words.ts';
import { laneName } from './lane-name.ts';
import type { HaltedLane, TopicView } from './read.ts';

/** Draws the lanes that wait until someone replays or dismisses a dead letter. */
export function haltedLanesSection(view: TopicView, context: PageContext): Html | null {
  if (view.haltedLanes.length === 0) return null;
  return section({
    id: 'halted',
    title: 'Halted lanes',
    hint: 'A lane is a subscriber’s deliveries in order. These wait until their dead letter is replayed or dismissed.',
    content: card(
      table({
        name: 'Halted lanes',
        caption: 'Lanes that a dead letter halts, the longest first',
        columns: [
          { label: 'Lane', isRowHeader: true, cell: (lane) => laneName(lane, view) },
          {
            label: 'Waiting',
            tone: 'num',
            cell: ({ isMore, waiting }) => html`${isMore && 'over '}${count(waiting)}`,
          },
          {
            label: 'Halted by',
            cell: (lane) => haltedBy(lane, view.generatedAt, `#to-${lane.subscriber}`).html,
          },
          LAST_ERROR,
          { ...ACTIONS, cell: (lane) => mayReplay(context.operator) && laneActions(lane, view, context) },
        ],
        rows: view.haltedLanes,
      }),
    ),
  });
}

function laneActions(lane: HaltedLane, { topic: { topic } }: TopicView, context: PageContext): Html {
  const { subscriber, orderingKey, deliveryId } = lane;
  const of = `${topic} to ${subscriber} ${orderingKey}`.trimEnd();
  return html`<div class="acts">
    ${replayLinkTo({ topic, subscriber }, of, { deliveryIds: deliveryId }, context)}
    ${dismissLetterForm(deliveryId, of, true, context)}
  </div>`;
}
