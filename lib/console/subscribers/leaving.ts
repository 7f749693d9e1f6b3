import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { mayReplay, retireLink } from '../kit/actions.ts';
import type { PageContext } from '../kit/layout.ts';
import { topicPath } from '../kit/links.ts';
import { card, section } from '../kit/sections.ts';
import { ACTIONS, table } from '../kit/table.ts';
import { count } from '../kit/words.ts';
import type { SubscriberHealth } from './read.ts';

/** Lists what is left of the subscriber in topics for which the catalog no longer lists it, and how to settle it. */
export function leavingSection(view: SubscriberHealth, context: PageContext): Html | null {
  const { subscriber, unlisted } = view;
  if (unlisted.length === 0) return null;
  return section({
    id: 'leaving',
    title: 'Not in this release’s catalog',
    hint: `no relay of this release delivers these to ${subscriber}`,
    content: html`${card(
        table({
          name: 'Not in this release’s catalog',
          caption: `What is left of ${subscriber} in topics for which the catalog does not list it`,
          columns: [
            {
              label: 'Topic',
              isRowHeader: true,
              cell: ({ topic }) => html`<a class="mono roomy" href="${topicPath(topic)}">${topic}</a>`,
            },
            { label: 'Waiting', tone: 'num', cell: ({ waiting }) => count(waiting) },
            { label: 'Dead letters', tone: 'num', cell: ({ deadLettered }) => count(deadLettered) },
            {
              ...ACTIONS,
              cell: ({ topic }) =>
                mayReplay(context.operator) && html`<div class="acts">${retireLink(subscriber, topic)}</div>`,
            },
          ],
          rows: unlisted,
        }),
      )}
      <p class="muted small note">
        Retire it if nobody wants them any more. If the catalog lists it under another name now, backfill that
        name first.
      </p>`,
  });
}
