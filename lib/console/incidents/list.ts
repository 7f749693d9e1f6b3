import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { CHECK_ICON, CLOCK_ICON, DEAD_ICON, WARNING_ICON } from '../kit/icons.ts';
import { timeToMinute } from '../kit/instants.ts';
import type { PageContext } from '../kit/layout.ts';
import { incidentPath } from '../kit/links.ts';
import { operatorText } from '../kit/operator-names.ts';
import type { OperatorNames } from '../kit/operator-names.ts';
import { failureLabel } from '../kit/states.ts';
import type { Incident } from './incident.ts';
import { shortCause } from './sentence.ts';
import { probeWords, whenPhrase } from './words.ts';

const LOOKS = {
  happening: { tone: 'dead', icon: DEAD_ICON },
  owed: { tone: 'fail', icon: WARNING_ICON },
  closed: { tone: 'ok', icon: CHECK_ICON },
} as const;

/**
 * Draws incidents below each other, each with its sentence, its error, which alone tells those of one status apart, and since
 * when it lasts.
 */
export function incidentItems(
  incidents: readonly Incident[],
  now: string,
  { names }: PageContext,
  isQuiet = false,
): Html {
  return html`<ul class="incidents ${isQuiet && 'quiet'}">
    ${incidents.map((incident) => incidentItem(incident, now, names))}
  </ul>`;
}

function incidentItem(incident: Incident, now: string, names: OperatorNames): Html {
  const { incidentId, state, sentence, lastError } = incident;
  const { tone, icon } = LOOKS[state];
  const probe = probeWords(incident, now);
  return html`<li class="${tone}">
    ${icon}
    <div>
      <a class="t" href="${incidentPath(incidentId)}" aria-label="${sentence} ${shortCause(lastError)}"
        >${sentence}</a
      >
      <p class="small">${failureLabel(lastError)}</p>
      <p class="s">
        ${whenPhrase(incident, now).html}${probe !== null && ` · ${probe}`}${standing(incident, now, names)}
      </p>
    </div>
  </li>`;
}

/** The title above incidents that block no lane. What the bus set aside is no dead letter. */
export function owedTitle(incidents: readonly Incident[]): string {
  const isOfBus = incidents.some(({ state, subscriber }) => state === 'owed' && subscriber === '');
  return isOfBus ? 'Over, with something left to settle' : 'Over, with dead letters left';
}

/** Says who has taken an incident up, and that the subscriber is paused or not in the catalog. */
function standing({ acknowledged, paused, inCatalog }: Incident, now: string, names: OperatorNames): Child {
  return html`${
    acknowledged !== null &&
    html` · acknowledged by ${operatorText(acknowledged.by, names)} ${timeToMinute(acknowledged.at, now)}:
    ${acknowledged.note}`
  }${paused && html` <span class="tag late">${CLOCK_ICON}paused</span>`}${
    !inCatalog && html` <span class="tag">not in this release’s catalog</span>`
  }`;
}
