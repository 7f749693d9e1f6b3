import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { hiddenField, missingScope } from '../kit/actions.ts';
import type { PageContext } from '../kit/layout.ts';
import { erasuresPath } from '../kit/links.ts';
import { endPhrase, listPage, operationTable } from '../kit/operation-pages.ts';
import type { Listed } from '../kit/operation-pages.ts';
import { emptyCard, section } from '../kit/sections.ts';
import { joinNames } from '../kit/words.ts';
import { ERASURE } from './page.ts';
import type { ErasureList, ErasureRecord } from './read.ts';

/** Draws whose data was erased, by whom, when and why, and a form that previews an erasure. */
export function erasuresPage(view: ErasureList, context: PageContext): Html {
  return listPage({
    kind: ERASURE,
    view,
    context,
    lead: 'People whose data was overwritten in every event that named them. Newest first.',
    content: tableOf(view, context),
    form: newErasure(context),
  });
}

function tableOf(view: ErasureList, context: PageContext): Html {
  if (view.items.length === 0)
    return emptyCard({
      title: 'No erasures yet',
      text: 'Each erasure is listed here, with its operator, its reason and what it overwrote.',
    });
  return operationTable(listedErasures(view), context);
}

function listedErasures({ items, generatedAt: now }: ErasureList): Listed<ErasureRecord> {
  return {
    kind: ERASURE,
    rows: items,
    now,
    id: ({ erasureId }) => erasureId,
    label: 'Whom',
    name: ({ subjects }) => joinNames(subjects),
    numbers: [['Events', ({ events }) => events]],
    state: ({ endedAt }) => endPhrase('ended', endedAt, now),
  };
}

function newErasure({ operator }: PageContext): Html {
  return section({
    id: 'new',
    title: 'New erasure',
    hint: 'previewed before anything is overwritten',
    content: operator.scopes.has('event-bus:erase')
      ? html`<form class="filters" method="post" action="${erasuresPath()}">
          ${hiddenField('dryRun', 'true')}
          <label class="f">
            Names of the person
            <input
              name="subjects"
              required
              size="44"
              autocomplete="off"
              spellcheck="false"
              placeholder="usr_3071, kari.lunde@example.no"
              title="Ids, e-mail addresses or event ids, with commas between them"
            />
          </label>
          <label class="check"><input type="checkbox" name="exact" value="true" /> These names alone</label>
          <button class="btn">Preview</button>
        </form>`
      : missingScope('Erase', 'event-bus:erase'),
  });
}
