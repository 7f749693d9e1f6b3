import { html } from '../../platform/markup.ts';
import { alertsList } from '../alerts/page.ts';
import type { Block, Doc } from '../kit/doc.ts';
import { CHECK_ICON } from '../kit/icons.ts';
import { incidentsPath } from '../kit/links.ts';
import type { OperatorNames } from '../kit/operator-names.ts';
import { emptyCard } from '../kit/sections.ts';
import { count } from '../kit/words.ts';
import { incidentItems, owedTitle } from './list.ts';
import type { IncidentList } from './read.ts';

/** Says the incidents: those that happen now, those that are over, and closed ones; and where alerts of them go. */
export function incidentsDoc(view: IncidentList, names: OperatorNames): Doc {
  const { items, happening, owed, generatedAt: at, nextCursor, alerts } = view;
  const definition = 'An incident is one error of one subscriber on one topic, or an outage of a subscriber.';
  const of = (state: 'happening' | 'owed' | 'closed') =>
    incidentItems(
      items.filter((one) => one.state === state),
      at,
      names,
    );
  return {
    title: 'Incidents',
    lead: `${count(happening)} happening now, ${count(owed)} ${owedTitle(items).toLowerCase().replace(',', '')}. ${definition}`,
    section: 'incidents',
    at,
    blocks: [
      items.length === 0 && NONE,
      {
        id: 'happening',
        title: 'Happening now',
        hint: 'lanes are blocked and their deliveries wait, or chat fails',
        items: of('happening'),
      },
      { id: 'owed', title: owedTitle(items), hint: 'replay, dismiss or repair', items: of('owed') },
      {
        id: 'closed',
        title: 'Closed',
        hint: 'nothing is left of them; newest first',
        items: of('closed'),
      },
      { id: 'alerts', drawn: (context) => alertsList(alerts, at, context) },
    ],
    nextCursor,
  };
}

const NONE: Block = {
  id: 'none',
  drawn({ url }) {
    const isFiltered = [...url.searchParams.keys()].length > 0;
    return emptyCard({
      icon: CHECK_ICON,
      title: isFiltered ? 'No incidents match these filters' : 'No incidents',
      text: 'Nothing is failing, and no dead letters are left.',
      ...(isFiltered && { action: html`<a class="btn" href="${incidentsPath()}">All incidents</a>` }),
    });
  },
  lines: ['No incidents.'],
};
