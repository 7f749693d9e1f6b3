import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { actionForm, mayReplay } from '../kit/actions.ts';
import { timeToMinute, until } from '../kit/instants.ts';
import type { PageContext } from '../kit/layout.ts';
import { quantity } from '../kit/words.ts';
import type { IncidentView } from './detail.ts';
import { step } from './step.ts';

/** Draws how an outage ends: a probe gets through, everything follows in order, and the incident closes. */
export function outageSteps(view: IncidentView, context: PageContext): Html {
  const { outage, waiting, state, closedAt, generatedAt: now, subscriber } = view;
  if (outage === null || state === 'closed') {
    return html`${step('done', 'Probe', `${subscriber} answers.`)}
    ${step('done', 'Deliver', 'What waited follows, in order.')}
    ${
      closedAt === null
        ? step('later', 'Confirm', 'This page shows when the outage is over.')
        : step('done', html`Confirmed ${timeToMinute(closedAt, now)}`, 'The outage is over.')
    }`;
  }
  const { probes, nextProbeAt } = outage;
  const probed = probes === 0 ? '' : ` ${quantity(probes, 'probe')} without an answer so far.`;
  const next = view.paused ? 'after the pause' : until(nextProbeAt, now);
  const follow = `${quantity(waiting, 'delivery')} ${waiting === 1 ? 'follows' : 'follow'} at once, in order. None has used up an attempt by waiting.`;
  return html`${step(
    'next',
    'Probe',
    `One delivery at a time probes, without using up an attempt.${probed} The next probe is ${next}.`,
    mayReplay(context.operator) &&
      actionForm('probe', { subscriber }, { of: subscriber, look: 'primary' }, context),
  )}
  ${step('later', 'Deliver', follow)} ${step('later', 'Confirm', 'This page shows when the outage is over.')}`;
}
