import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import {
  backfillsPath,
  catalogPath,
  deadLettersPath,
  erasuresPath,
  eventsPath,
  HOME,
  incidentsPath,
  replaysPath,
  subscribersPath,
  timersPath,
  webhooksPath,
} from './links.ts';
import type { OperatorNames } from './operator-names.ts';
import type { PauseOf } from './pauses.ts';
import { count } from './words.ts';

/** What every page shows, or says of what it shows. */
export interface Badges {
  readonly deadLetters: number;
  /** Incidents that are happening now. */
  readonly happening: number;
  /** All pauses, which pages show that concern what they stop. */
  readonly pauses: readonly PauseOf[];
  /** Of operators, by the ids that the log has. */
  readonly names: OperatorNames;
}

// The pages in groups, by what people look for. The pages of the present group stand below the groups.

const NOW = [
  { section: 'overview', path: HOME, words: 'Overview' },
  { section: 'incidents', path: incidentsPath(), words: 'Incidents' },
  { section: 'dead-letters', path: deadLettersPath(), words: 'Dead letters' },
] as const;

const EVENTS = [
  { section: 'events', path: eventsPath(), words: 'All events' },
  { section: 'timers', path: timersPath(), words: 'Timers' },
] as const;

const OPERATIONS = [
  { section: 'replays', path: replaysPath(), words: 'Replays and log' },
  { section: 'backfills', path: backfillsPath(), words: 'Backfills' },
  { section: 'erasures', path: erasuresPath(), words: 'Erasures' },
] as const;

const GROUPS = [
  { words: 'Now', pages: NOW },
  { words: 'Events', pages: EVENTS },
  {
    words: 'Subscribers',
    pages: [{ section: 'subscribers', path: subscribersPath(), words: 'Subscribers' }],
  },
  { words: 'Operations', pages: OPERATIONS },
  { words: 'Webhooks', pages: [{ section: 'webhooks', path: webhooksPath(), words: 'Webhooks' }] },
  { words: 'Catalog', pages: [{ section: 'catalog', path: catalogPath(), words: 'Catalog' }] },
] as const;

/** An entry of the navigation. */
export type Section = (typeof GROUPS)[number]['pages'][number]['section'];

type OperationSection = (typeof OPERATIONS)[number]['section'];

/** The entry of the page that lists one kind of operation. */
export function operationSection(list: string): OperationSection {
  return OPERATIONS.find(({ path }) => path === list)?.section ?? 'replays';
}

/** Draws the groups and, below them, the pages of the one that `section` belongs to. */
export function navigation(section: Section | null, badges: Badges | null): Html {
  const happening = pill(badges?.happening, 'happening now');
  const pills = new Map<Section, Child>([
    ['incidents', happening],
    ['dead-letters', pill(badges?.deadLetters)],
  ]);
  const current = GROUPS.find(({ pages }) => pages.some((page) => page.section === section));
  return html`<nav id="navigation" aria-label="Main">
    ${GROUPS.map((group) => {
      const [{ path }] = group.pages;
      const mark = group === current && (group.pages.length > 1 ? CURRENT_GROUP : CURRENT_PAGE);
      // The pages below the present group have its number.
      const number = group.pages === NOW && group !== current && happening;
      return html`<a href="${path}" ${mark}>${group.words} ${number}</a>`;
    })}
    ${
      current !== undefined &&
      current.pages.length > 1 &&
      html`<div class="within">
        ${current.pages.map(
          (page) =>
            html`<a href="${page.path}" ${page.section === section && CURRENT_PAGE}
              >${page.words} ${pills.get(page.section)}</a
            >`,
        )}
      </div>`
    }
  </nav>`;
}

const CURRENT_GROUP = html`aria-current="true"`;
const CURRENT_PAGE = html`aria-current="page"`;

/** @param meaning for screen readers, where the entry's name does not say what is counted. */
function pill(number = 0, meaning?: string): Child {
  return (
    number > 0 &&
    html`<span class="pill dead"
      >${count(number)}${meaning !== undefined && html`<span class="vh"> ${meaning}</span>`}</span
    >`
  );
}
