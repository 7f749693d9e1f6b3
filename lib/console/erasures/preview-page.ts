import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { hiddenField, missingScope, reasonField } from '../kit/actions.ts';
import { layout } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { erasuresPath, topicPath } from '../kit/links.ts';
import { warning } from '../kit/preview.ts';
import { card, factList } from '../kit/sections.ts';
import { table } from '../kit/table.ts';
import { count, joinNames, quantity } from '../kit/words.ts';
import type { ErasurePreview } from './preview.ts';
import { warningsOf } from './words.ts';

/** Draws what an erasure would overwrite, and the form that starts it. */
export function previewPage(view: ErasurePreview, context: PageContext): Html {
  const content = html`<div class="panel">
    <h1>Erase ${quantity(view.events, 'event')}?</h1>
    <p class="muted">Nothing has been overwritten yet. Once it has been, nothing brings it back.</p>
    ${warningsOf(view).map(([fact, consequence]) => warning(html`<b>${fact}</b> ${consequence}`))}
    ${facts(view)} ${view.topics.length > 0 && topics(view)} ${confirmation(view, context)}
  </div>`;
  return layout({ title: 'Erase', section: 'replays', content }, context);
}

function facts({ names, searched, pending, notSearched }: ErasurePreview): Html {
  const sought = names.filter(({ origin }) => origin === 'asked' || origin === 'linked');
  return factList([
    ['Looks for', html`<span class="mono">${joinNames(sought.map(({ name }) => name))}</span>`],
    [
      'Overwrites',
      'Personal data of payloads, attempts, dead letters, notifications, incidents and error groups',
    ],
    ['Stays', 'Ids, order, counts, states, the audit trail'],
    ['Events read', count(searched)],
    pending.length > 0 && [
      'Not finished',
      joinNames(pending.map((one) => `${count(one.count)} of ${one.topic} to ${one.subscriber}`)),
    ],
    ['Not searched', html`<span class="mono">${joinNames(notSearched)}</span>`],
  ]);
}

function topics({ topics: rows }: ErasurePreview): Html {
  return card(
    table({
      name: 'Events by topic',
      caption: 'Events that name the person, by topic',
      columns: [
        {
          label: 'Topic',
          cell: ({ topic }) => html`<a class="mono" href="${topicPath(topic)}">${topic}</a>`,
        },
        { label: 'Events', tone: 'num', cell: ({ events }) => count(events) },
      ],
      rows,
    }),
  );
}

function confirmation({ request }: ErasurePreview, { operator }: PageContext): Html {
  const [first = ''] = request.subjects ?? [];
  if (!operator.scopes.has('event-bus:erase')) return missingScope('Erase', 'event-bus:erase');
  return html`<form method="post" action="${erasuresPath()}">
    ${hiddenField('subjects', (request.subjects ?? []).join(','))}
    ${request.exact === true && hiddenField('exact', 'true')}
    ${request.erasureId !== undefined && hiddenField('erasureId', request.erasureId)}
    ${reasonField('for example: request 2026-114', 'Kept forever: do not name the person')}
    <label class="f">
      Type ${first} to confirm
      <input name="confirm" required autocomplete="off" spellcheck="false" title="Type ${first}" />
    </label>
    <div class="end">
      <a class="btn" href="${erasuresPath()}">Cancel</a>
      <button class="btn primary">Erase permanently</button>
    </div>
  </form>`;
}
