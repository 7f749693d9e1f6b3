import { html } from '../../platform/markup.ts';
import type { Item } from '../kit/doc.ts';
import { errorPhrase, inConsole, inTerminal, say, styled, toMinute } from '../kit/document.ts';
import { CLOCK_ICON } from '../kit/icons.ts';
import { incidentPath } from '../kit/links.ts';
import { operatorText } from '../kit/operator-names.ts';
import type { OperatorNames } from '../kit/operator-names.ts';
import type { Incident } from './incident.ts';
import { shortCause } from './sentence.ts';
import { probeWords, whenPhrase } from './words.ts';

export const TONES = { happening: 'dead', owed: 'fail', closed: 'ok' } as const;

/** Says incidents: each with its sentence, its error, which alone tells those of one status apart, and since when it lasts. */
export function incidentItems(incidents: readonly Incident[], now: string, names: OperatorNames): Item[] {
  return incidents.map((incident) => {
    const { incidentId, state, sentence, lastError, acknowledged, paused, inCatalog } = incident;
    const label = `${sentence} ${shortCause(lastError)}`;
    return {
      tone: TONES[state],
      words: {
        html: html`<a class="t" href="${incidentPath(incidentId)}" aria-label="${label}">${sentence}</a>`,
        text: sentence,
      },
      details: [
        errorPhrase(lastError),
        whenPhrase(incident, now),
        probeWords(incident, now),
        acknowledged &&
          say`acknowledged by ${operatorText(acknowledged.by, names)} ${toMinute(acknowledged.at, now)}: ${acknowledged.note}`,
        paused && { html: html`<span class="tag late">${CLOCK_ICON}paused</span>`, text: 'paused' },
        !inCatalog && inConsole(html`<span class="tag">not in this release’s catalog</span>`),
        styled('dim', inTerminal(incidentId)),
      ],
    };
  });
}

/** The title above incidents that block no lane. What the bus set aside is no dead letter. */
export function owedTitle(incidents: readonly Incident[]): string {
  const isOfBus = incidents.some(({ state, subscriber }) => state === 'owed' && subscriber === '');
  return isOfBus ? 'Over, with something left to settle' : 'Over, with dead letters left';
}
