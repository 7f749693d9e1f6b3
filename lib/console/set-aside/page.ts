import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { actionForm, mayReplay, missingReplayScope } from '../kit/actions.ts';
import { CHECK_ICON } from '../kit/icons.ts';
import { timeAndAgo } from '../kit/instants.ts';
import { heading, layout, liveness } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { eventPath, incidentsPath, topicPath } from '../kit/links.ts';
import { operatorText } from '../kit/operator-names.ts';
import { card, emptyCard, section } from '../kit/sections.ts';
import { ACTIONS, table } from '../kit/table.ts';
import type { Column } from '../kit/table.ts';
import { shortId } from '../kit/words.ts';
import type { SetAside, SetAsideList } from './read.ts';
import { openWords, repairWords, whatWords } from './words.ts';

const REFRESH_SECONDS = 15;

/** Draws what the bus set aside: what nobody has repaired, then what was. */
export function setAsidePage(view: SetAsideList, context: PageContext): Html {
  const { items, open, generatedAt } = view;
  const content = html`<p class="back"><a href="${incidentsPath()}">← Incidents</a></p>
    ${heading({
      title: 'Set aside',
      lead: `${openWords(view)} Rows that should not exist stop nothing but themselves.`,
      live: liveness(generatedAt, REFRESH_SECONDS, context.url),
    })}
    ${open > 0 && missingReplayScope(context.operator)}
    ${
      items.length === 0
        ? emptyCard({
            icon: CHECK_ICON,
            title: 'Nothing is set aside',
            text: 'Every row is as it should be.',
          })
        : [openSection(view, context), repairedSection(view, context)]
    }`;
  return layout(
    { title: 'Set aside', section: 'incidents', refreshSeconds: REFRESH_SECONDS, content },
    context,
  );
}

function openSection({ items, generatedAt }: SetAsideList, context: PageContext): Html | null {
  const open = items.filter(({ repaired }) => repaired === null);
  if (open.length === 0) return null;
  return section({
    id: 'open',
    title: 'To repair',
    hint: 'newest first',
    content: card(
      table({
        name: 'To repair',
        caption: 'What was set aside and nobody has repaired, newest first',
        columns: [
          ...whatColumns(generatedAt),
          {
            ...ACTIONS,
            cell: (row) =>
              mayReplay(context.operator) &&
              html`<div class="acts">
                ${actionForm('repair', { id: row.id }, { of: row.id, text: repairWords(row) }, context)}
              </div>`,
          },
        ],
        rows: open,
      }),
    ),
  });
}

function repairedSection({ items, generatedAt }: SetAsideList, { names }: PageContext): Html | null {
  const repaired = items.filter((row) => row.repaired !== null);
  if (repaired.length === 0) return null;
  return section({
    id: 'repaired',
    title: 'Repaired',
    hint: 'newest first',
    content: card(
      table({
        name: 'Repaired',
        caption: 'What was set aside and is repaired, newest first',
        columns: [...whatColumns(generatedAt), { label: 'Repaired', look: 'message', cell: repairedCell }],
        rows: repaired,
      }),
    ),
  });

  function repairedCell({ repaired: done }: SetAside): Child {
    return (
      done && html`${timeAndAgo(done.at, generatedAt)} by ${operatorText(done.by, names)}: ${done.reason}`
    );
  }
}

function whatColumns(now: string): Column<SetAside>[] {
  return [
    { label: 'What', isRowHeader: true, look: 'wrap', cell: whatCell },
    { label: 'Event', cell: eventCell },
    { label: 'Set aside', look: 'nowrap', cell: ({ at }) => timeAndAgo(at, now) },
  ];
}

function whatCell(row: SetAside): Html {
  const { id, topic, error } = row;
  return html`${whatWords(row)}
    <span class="s"
      >${id}${topic !== null && html`, <a class="mono" href="${topicPath(topic)}">${topic}</a>`}${
        error !== null && `: ${error}`
      }</span
    >`;
}

function eventCell({ eventId, eventExists }: SetAside): Child {
  if (eventId === null) return 'none';
  return eventExists
    ? html`<a class="mono nowrap" href="${eventPath(eventId)}">${shortId(eventId)}</a>`
    : html`<span class="mono nowrap">${shortId(eventId)}</span><span class="s">does not exist</span>`;
}
