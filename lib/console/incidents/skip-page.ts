import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { mayReplay, missingReplayScope, reasonField } from '../kit/actions.ts';
import { CHECK_ICON } from '../kit/icons.ts';
import { layout } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { deadLetterPath, incidentPath } from '../kit/links.ts';
import { confirmation, previewed } from '../kit/operation-pages.ts';
import { confirmField } from '../kit/preview.ts';
import { emptyCard, withLinks } from '../kit/sections.ts';
import { failureLabel } from '../kit/states.ts';
import { subscriberLink } from '../kit/subscriber-link.ts';
import { count, quantity } from '../kit/words.ts';
import type { SkipPreview } from './skip-preview.ts';
import { behindWords, haltedWarning } from './words.ts';

/** Draws what a skip of all blocked heads would do, and the form that does it. */
export function skipPage(view: SkipPreview, context: PageContext): Html {
  const content = view.lanes.length === 0 ? nothingToSkip(view, context) : preview(view, context);
  return layout({ title: 'Skip', section: 'incidents', content }, context);
}

function preview(view: SkipPreview, context: PageContext): Html {
  const { incidentId, topic, subscriber, lastError, lanes } = view;
  const { operator, entered } = context;
  const what = quantity(lanes.length, 'delivery');
  const path = incidentPath(incidentId);
  return html`<form class="panel" method="post" action="${path}/skip">
    ${previewed(
      `Skip ${what}?`,
      'Nothing has been skipped yet. This is what the skip would do.',
      [haltedWarning(view)],
      [
        topic !== null && ['Topic', html`<span class="mono">${topic}</span>`],
        ['Goes to', subscriberLink(subscriber, topic ?? undefined)],
        ['Error', failureLabel(lastError)],
        ['Skipped', headList(view)],
        ['Lanes', behindWords(view)],
        ['How', 'Each becomes a dead letter, which can be replayed like any other'],
      ],
    )}
    ${missingReplayScope(operator)}
    ${confirmation({
      isAllowed: mayReplay(operator),
      request: { deliveryIds: lanes.map(({ deliveryId }) => deliveryId), expectedCount: lanes.length },
      fields: html`${reasonField('for example: the period is closed, booked by hand', undefined, entered)}
      ${confirmField(lanes.length, 'skip', context)}`,
      button: `Skip ${what}`,
      cancel: path,
      context,
    })}
  </form>`;
}

/** Nobody reads a longer list. */
const MOST_LISTED = 20;

function headList({ lanes }: SkipPreview): Html {
  const more = lanes.length - MOST_LISTED;
  return html`<ul class="goes">
    ${lanes
      .slice(0, MOST_LISTED)
      .map(
        ({ deliveryId, orderingKey, subject }) =>
          html`<li>
            <a class="mono" href="${deadLetterPath(deliveryId)}">${deliveryId}</a> ${subject ?? orderingKey}
          </li>`,
      )}
    ${more > 0 && html`<li class="muted">and ${count(more)} more</li>`}
  </ul>`;
}

function nothingToSkip({ incidentId }: SkipPreview, { entered }: PageContext): Html {
  return emptyCard({
    icon: CHECK_ICON,
    title: 'Nothing to skip',
    text: withLinks(entered?.wrong[''] ?? 'No delivery holds a lane of this incident any more.'),
    action: html`<a class="btn" href="${incidentPath(incidentId)}">The incident</a>`,
  });
}
