import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { actionForm } from '../kit/actions.ts';
import type { PageContext } from '../kit/layout.ts';
import { quantity } from '../kit/words.ts';
import type { IncidentView } from './detail.ts';
import type { Incident } from './incident.ts';

/** Says that an operator has taken the incident up. */
export function acknowledgeForm({ incidentId, acknowledged }: Incident, context: PageContext): Html {
  return actionForm(
    'acknowledge-incident',
    { incidentId },
    { of: null, ...(acknowledged !== null && { button: 'Acknowledge again…' }), isLeft: true },
    context,
  );
}

/** Takes the incident's dead letters out of the counts, for a reason. */
export function dismissForm({ incidentId, owed, generatedAt }: IncidentView, context: PageContext): Html {
  const what = quantity(owed, 'dead letter');
  return actionForm(
    'dismiss-incident',
    { incidentId },
    {
      of: null,
      // What dies after the page was drawn is not dismissed.
      hidden: { until: generatedAt, expectedCount: `${owed}` },
      question: `Never replay ${owed === 1 ? 'it' : 'them'}?`,
      text: `${what} ${owed === 1 ? 'leaves' : 'leave'} the counts, and can still be replayed until the event is pruned.`,
      submit: html`<button class="btn sm">Dismiss ${what}</button>`,
      isLeft: true,
    },
    context,
  );
}
