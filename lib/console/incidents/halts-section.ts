import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { dismissLetterForm, mayReplay, replayLink } from '../kit/actions.ts';
import { listTable } from '../kit/document.ts';
import type { PageContext } from '../kit/layout.ts';
import { card, section } from '../kit/sections.ts';
import { countOfLanes } from '../kit/words.ts';
import type { IncidentView } from './detail.ts';
import { haltList } from './lists.ts';
import { titleOf } from './words.ts';

/** Draws the dead letters that halt lanes, with what waits behind each. */
export function haltsSection(view: IncidentView, context: PageContext): Html | null {
  const { halts, haltedLanes, topic, subscriber } = view;
  if (halts.length === 0) return null;
  return section({
    id: 'halted',
    title: titleOf('Halted lanes', halts.length, haltedLanes, countOfLanes),
    hint: 'A lane is a subscriber’s deliveries in order. These wait until their dead letter is replayed or dismissed.',
    content: card(listTable(haltList(view), { actions: actionsOn })),
  });

  function actionsOn({ deliveryId, orderingKey }: IncidentView['halts'][number]): Html | false {
    const of = `${topic} to ${subscriber} ${orderingKey}`.trimEnd();
    return (
      mayReplay(context.operator) &&
      html`${replayLink(of, { deliveryIds: deliveryId })} ${dismissLetterForm(deliveryId, of, true, context)}`
    );
  }
}
