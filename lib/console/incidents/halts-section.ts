import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { visibleName } from '../../platform/visible.ts';
import { dismissLetterForm, mayReplay, replayLink } from '../kit/actions.ts';
import { timeAndAgo } from '../kit/instants.ts';
import type { PageContext } from '../kit/layout.ts';
import { deadLetterPath, eventPath } from '../kit/links.ts';
import { card, section } from '../kit/sections.ts';
import { failureLabel } from '../kit/states.ts';
import { ACTIONS, table } from '../kit/table.ts';
import { count, countOfLanes, shortId } from '../kit/words.ts';
import type { IncidentView } from './detail.ts';

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
        columns: ['Lane', ['Waiting', 'num'], 'Halted by', 'Last error', ACTIONS],
        rows: halts.map((halt) => {
          const of = `${topic} to ${subscriber} ${halt.orderingKey}`.trimEnd();
          return html`<tr class="r">
            <th class="row wrap ${halt.orderingKey !== '' && 'mono'}" scope="row">
              ${visibleName(halt.orderingKey) || 'whole topic'}
            </th>
            <td class="num">${halt.waiting >= COUNTED ? html`over ${COUNTED}` : count(halt.waiting)}</td>
            <td>
              <a class="mono nowrap" href="${deadLetterPath(halt.deliveryId)}"
                >dead letter ${halt.deliveryId}</a
              >
              <span class="s"
                >${halt.subject !== null && `${halt.subject}, `}event
                <a class="mono" href="${eventPath(halt.eventId)}">${shortId(halt.eventId)}</a></span
              >
              <span class="s">since ${timeAndAgo(halt.since, now)}</span>
            </td>
            <td class="message">${halt.lastError && failureLabel(halt.lastError)}</td>
            <td class="end">
              ${
                mayReplay(context.operator) &&
                html`<div class="acts">
                  ${replayLink(of, { deliveryIds: halt.deliveryId })}
                  ${dismissLetterForm(halt.deliveryId, of, true, context)}
                </div>`
              }
            </td>
          </tr>`;
        }),
      }),
    ),
  });
}

/** Deliveries that are counted behind a dead letter. */
const COUNTED = 100;
