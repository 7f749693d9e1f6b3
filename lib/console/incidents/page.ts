import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { alertsList } from '../alerts/page.ts';
import { CHECK_ICON } from '../kit/icons.ts';
import { heading, layout, liveness } from '../kit/layout.ts';
import type { PageContext } from '../kit/layout.ts';
import { incidentsPath } from '../kit/links.ts';
import { cursorPager } from '../kit/pager.ts';
import { card, emptyCard, section } from '../kit/sections.ts';
import { count, quantity } from '../kit/words.ts';
import type { Incident } from './incident.ts';
import { incidentItems, owedTitle } from './list.ts';
import type { IncidentList } from './read.ts';

const REFRESH_SECONDS = 15;

const SECTIONS = [
  {
    state: 'happening',
    title: 'Happening now',
    hint: 'lanes are blocked and their deliveries wait, or chat fails',
  },
  { state: 'owed', title: null, hint: 'replay, dismiss or repair' },
  { state: 'closed', title: 'Closed', hint: 'nothing is left of them; newest first' },
] as const;

/** Draws the incidents: those that happen now, those that are over, and closed ones. */
export function incidentsPage(view: IncidentList, context: PageContext): Html {
  const content = html`${heading({
    title: 'Incidents',
    lead: leadOf(view),
    live: liveness(view.generatedAt, REFRESH_SECONDS, context.url),
  })}
  ${view.items.length === 0 ? none(context) : SECTIONS.map((one) => stateSection(view, one, context))}
  ${cursorPager(view.nextCursor, context.url, quantity(view.items.length, 'incident'))}
  ${alertsList(view.alerts, view.generatedAt, context)}`;
  return layout(
    { title: 'Incidents', section: 'incidents', refreshSeconds: REFRESH_SECONDS, content },
    context,
  );
}

function leadOf({ happening, owed, items }: IncidentList): string {
  const definition = 'An incident is one error of one subscriber on one topic, or an outage of a subscriber.';
  return `${count(happening)} happening now, ${count(owed)} ${owedTitle(items).toLowerCase().replace(',', '')}. ${definition}`;
}

function stateSection(
  { items, generatedAt }: IncidentList,
  { state, title, hint }: (typeof SECTIONS)[number],
  context: PageContext,
): Html | null {
  const found = items.filter((incident: Incident) => incident.state === state);
  if (found.length === 0) return null;
  return section({
    id: state,
    title: title ?? owedTitle(found),
    hint,
    content: card(incidentItems(found, generatedAt, context)),
  });
}

function none({ url }: PageContext): Html {
  const isFiltered = [...url.searchParams.keys()].length > 0;
  return emptyCard({
    icon: CHECK_ICON,
    title: isFiltered ? 'No incidents match these filters' : 'No incidents',
    text: 'Nothing is failing, and no dead letters are left.',
    ...(isFiltered && { action: html`<a class="btn" href="${incidentsPath()}">All incidents</a>` }),
  });
}
