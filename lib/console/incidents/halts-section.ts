import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { dismissLetterForm, mayReplay, replayLink } from '../kit/actions.ts';
import { timeAndAgo } from '../kit/instants.ts';
import type { PageContext } from '../kit/layout.ts';
import { deadLetterPath, eventPath } from '../kit/links.ts';
import { card, section } from '../kit/sections.ts';
import { LAST_ERROR } from '../kit/states.ts';
import { ACTIONS, table } from '../kit/table.ts';
import { countOfLanes, shortId } from '../kit/words.ts';
import type { IncidentView } from './detail.ts';
import { LANE, WAITING } from './lane-columns.ts';

/** Draws the dead letters that halt lanes, with what waits behind each. */
export function haltsSection(view: IncidentView, context: PageContext): Html | null {
  const { halts, haltedLanes, generatedAt: now, topic, subscriber } = view;
  if (halts.length === 0) return null;
  return section({
    id: 'halted',
    title:
      halts.length < haltedLanes
        ? `${halts.length} of ${countOfLanes(haltedLanes)} halted lanes`
        : 'Halted lanes',
    hint: 'A lane is a subscriber’s deliveries in order. These wait until their dead letter is replayed or dismissed.',
    content: card(
      table({
        name: 'Halted lanes',
        caption: 'Lanes that a dead letter halts, the longest first',
        columns: [
          LANE,
          WAITING,
          { label: 'Halted by', cell: (halt) => deadLetterOf(halt, now) },
          LAST_ERROR,
          { ...ACTIONS, cell: actionsOn },
        ],
        rows: halts,
      }),
    ),
  });

  function actionsOn({ deliveryId, orderingKey }: Halt): Html | false {
    const of = `${topic} to ${subscriber} ${orderingKey}`.trimEnd();
    return (
      mayReplay(context.operator) &&
      html`<div class="acts">
        ${replayLink(of, { deliveryIds: deliveryId })} ${dismissLetterForm(deliveryId, of, true, context)}
      </div>`
    );
  }
}

type Halt = IncidentView['halts'][number];

function deadLetterOf({ deliveryId, subject, eventId, since }: Halt, now: string): Html {
  return html`<a class="mono nowrap" href="${deadLetterPath(deliveryId)}">dead letter ${deliveryId}</a>
    <span class="s"
      >${subject !== null && `${subject}, `}event
      <a class="mono" href="${eventPath(eventId)}">${shortId(eventId)}</a></span
    >
    <span class="s">since ${timeAndAgo(since, now)}</span>`;
}
