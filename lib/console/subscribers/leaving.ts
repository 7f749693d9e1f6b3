import { catalog, isTopicName } from '../../bus/catalog/catalog.ts';
import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { hiddenField, mayReplay, retireLink } from '../kit/actions.ts';
import type { PageContext } from '../kit/layout.ts';
import { subscriberPath, topicPath } from '../kit/links.ts';
import { card, section } from '../kit/sections.ts';
import { select } from '../kit/select.ts';
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
                mayReplay(context.operator) &&
                html`<div class="acts">
                  ${renameForm(subscriber, topic)} ${retireLink(subscriber, topic)}
                </div>`,
            },
          ],
          rows: unlisted,
        }),
      )}
      <p class="muted small note">
        Rename it if the catalog lists it under another name now: that name gets them, in order. Retire it if
        nobody wants them any more.
      </p>`,
  });
}

/** Leads to the preview of what moves waiting deliveries and dead letters to another name. */
function renameForm(subscriber: string, topic: string): Html | null {
  // Only a name that the catalog lists for the topic is accepted.
  const names: readonly string[] = isTopicName(topic) ? catalog[topic].subscribers : [];
  if (names.length === 0) return null;
  return html`<details class="act">
    <summary class="btn sm">Rename…<span class="vh"> ${subscriber} on ${topic}</span></summary>
    <form method="get" action="${subscriberPath(subscriber)}/rename">
      <p class="small muted">
        <b>Which name has it now?</b> What waits and what died goes to that name. A preview comes first.
      </p>
      ${hiddenField('topic', topic)}
      ${select('New name', 'to', null, [
        ['', 'Choose a name'],
        ...names.map((name) => [name, name] as const),
      ])}
      <button class="btn sm">Preview<span class="vh"> the rename of ${subscriber} on ${topic}</span></button>
    </form>
  </details>`;
}
