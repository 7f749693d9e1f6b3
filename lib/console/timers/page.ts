import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { actionForm, mayReplay, missingReplayScope } from '../kit/actions.ts';
import { listTable } from '../kit/document.ts';
import { heading, layout, liveness } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { timersPath } from '../kit/links.ts';
import { cursorPager } from '../kit/pager.ts';
import { card, emptyCard } from '../kit/sections.ts';
import { shortId } from '../kit/words.ts';
import { timersByTime } from './lists.ts';
import type { TimerList } from './read.ts';

const REFRESH_SECONDS = 15;

/** Draws what will happen, by time, with what cancels each. */
export function timersPage(view: TimerList, context: PageContext): Html {
  const { items, filters, generatedAt, nextCursor } = view;
  const isFiltered = filters.topic !== null || filters.timerKey !== null;
  const content = html`${heading({
      title: 'Timers',
      lead: 'Events that happen later, the next one first.',
      live: liveness(generatedAt, REFRESH_SECONDS, context.url),
    })}
    <form class="filters bar" method="get" action="${timersPath()}">
      ${filter('topic', 'Topic', filters.topic)} ${filter('timerKey', 'Timer key', filters.timerKey)}
      <button class="btn">Apply</button>
    </form>
    ${items.length > 0 && missingReplayScope(context.operator)}
    ${
      items.length === 0
        ? emptyCard({
            title: isFiltered ? 'No timers match' : 'No timers are set',
            text: 'An event that a producer emits with a later time is listed here until it happens.',
          })
        : card(
            listTable(timersByTime(view), {
              actions: ({ eventId }) =>
                mayReplay(context.operator) &&
                actionForm('cancel-timer', { eventId }, { of: shortId(eventId) }, context),
            }),
          )
    }
    ${cursorPager(nextCursor, context.url)}`;
  return layout({ title: 'Timers', section: 'timers', refreshSeconds: REFRESH_SECONDS, content }, context);
}

function filter(name: string, label: string, value: string | null): Html {
  return html`<label class="f topic">
    ${label}
    <input type="search" name="${name}" value="${value ?? ''}" spellcheck="false" autocapitalize="off" />
  </label>`;
}
