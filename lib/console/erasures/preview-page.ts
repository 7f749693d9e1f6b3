import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { missingScope, reasonField } from '../kit/actions.ts';
import { listTable } from '../kit/document.ts';
import { layout } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { erasuresPath } from '../kit/links.ts';
import { confirmation, previewed } from '../kit/operation-pages.ts';
import { typedField } from '../kit/preview.ts';
import { card } from '../kit/sections.ts';
import { count, joinNames, quantity } from '../kit/words.ts';
import type { ErasurePreview } from './preview.ts';
import { topicList, warningsOf } from './words.ts';

/** Draws what an erasure would overwrite, and the form that starts it. */
export function previewPage(view: ErasurePreview, context: PageContext): Html {
  const { names, searched, pending, notSearched, topics } = view;
  const sought = names.filter(({ origin }) => origin === 'asked' || origin === 'linked');
  const content = html`<div class="panel">
    ${previewed(
      `Erase ${quantity(view.events, 'event')}?`,
      'Nothing has been overwritten yet. Once it has been, nothing brings it back.',
      warningsOf(view),
      [
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
      ],
    )}
    ${topics.length > 0 && card(listTable(topicList(topics)))} ${confirmationForm(view, context)}
  </div>`;
  return layout({ title: 'Erase', section: 'erasures', content }, context);
}

function confirmationForm({ request }: ErasurePreview, context: PageContext): Html {
  const { operator, entered } = context;
  const [first = ''] = request.subjects ?? [];
  if (!operator.scopes.has('event-bus:erase')) return missingScope('Erase', 'event-bus:erase');
  return html`<form method="post" action="${erasuresPath()}">
    ${confirmation({
      isAllowed: true,
      request,
      fields: html`${reasonField('for example: request 2026-114', 'Kept forever: do not name the person', entered)}
      ${typedField(first, null, entered)}`,
      button: 'Erase permanently',
      cancel: erasuresPath(),
      context,
    })}
  </form>`;
}
