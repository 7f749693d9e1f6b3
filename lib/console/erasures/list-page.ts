import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { hiddenField, missingScope } from '../kit/actions.ts';
import { timeAndAgo, timeText } from '../kit/instants.ts';
import { heading, layout, liveness } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { erasurePath, erasuresPath } from '../kit/links.ts';
import { cursorPager } from '../kit/pager.ts';
import { card, emptyCard, section } from '../kit/sections.ts';
import { ACTIONS, table } from '../kit/table.ts';
import { count, joinNames } from '../kit/words.ts';
import type { ErasureList, ErasureRecord } from './read.ts';

const REFRESH_SECONDS = 15;

/** Draws whose data was erased, by whom, when and why, and a form that previews an erasure. */
export function erasuresPage(view: ErasureList, context: PageContext): Html {
  const content = html`${heading({
    title: 'Erasures',
    lead: 'People whose data was overwritten in every event that named them. Newest first.',
    live: liveness(view.generatedAt, REFRESH_SECONDS, context.url),
  })}
  ${listCard(view)} ${cursorPager(view.nextCursor, context.url)} ${newErasure(context)}`;
  return layout({ title: 'Erasures', section: 'replays', refreshSeconds: REFRESH_SECONDS, content }, context);
}

function listCard({ items, generatedAt: now }: ErasureList): Html {
  if (items.length === 0)
    return emptyCard({
      title: 'No erasures yet',
      text: 'Each erasure is listed here, with its operator, its reason and what it overwrote.',
    });
  return card(
    table({
      name: 'Erasures',
      caption: 'Erasures, newest first',
      columns: [
        { label: 'When', look: 'nowrap', cell: ({ requestedAt }) => timeAndAgo(requestedAt, now) },
        {
          label: 'Whom',
          cell: ({ erasureId, subjects }) =>
            html`<a class="t mono" href="${erasurePath(erasureId)}">${joinNames(subjects)}</a>`,
        },
        { label: 'Who', look: 'nowrap', cell: ({ requestedBy }) => requestedBy },
        { label: 'Why', look: 'message', cell: ({ reason }) => reason },
        { label: 'Events', tone: 'num', cell: ({ events }) => count(events) },
        {
          label: 'State',
          look: 'nowrap',
          cell: ({ endedAt }) => (endedAt === null ? 'under way' : html`ended ${timeAndAgo(endedAt, now)}`),
        },
        { ...ACTIONS, cell: (item) => detailsLink(item, now) },
      ],
      rows: items,
    }),
  );
}

function detailsLink({ erasureId, subjects, requestedAt }: ErasureRecord, now: string): Html {
  return html`<div class="acts">
    <a class="btn sm quiet" href="${erasurePath(erasureId)}"
      >Details<span class="vh">
        of the erasure of ${joinNames(subjects)} at ${timeText(requestedAt, now)}</span
      ></a
    >
  </div>`;
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
