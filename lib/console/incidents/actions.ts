import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { hiddenField, reasonField, reasonForm } from '../kit/actions.ts';
import type { PageContext } from '../kit/layout.ts';
import { incidentPath, subscriberPath } from '../kit/links.ts';
import { quantity } from '../kit/words.ts';
import type { Incident } from './incident.ts';

/** Says that an operator has taken the incident up. */
export function acknowledgeForm({ incidentId, acknowledged }: Incident, { url }: PageContext): Html {
  return reasonForm({
    button: acknowledged === null ? 'Acknowledge…' : 'Acknowledge again…',
    path: `${incidentPath(incidentId)}/acknowledge`,
    text: 'Tells everyone that you have taken it up. The incident stays open until nothing is left of it.',
    fields: html`${nextField(url)}
      <label class="f">
        Note <span class="hint">Shown with your name</span>
        <input
          name="note"
          required
          minlength="5"
          maxlength="500"
          autocomplete="off"
          placeholder="for example: the supplier is notified, INC-4411"
        />
      </label>`,
    submit: html`<button class="btn sm">Acknowledge</button>`,
    isLeft: true,
  });
}

/** Takes the incident's dead letters out of the counts, for a reason. */
export function dismissForm({ incidentId, owed }: Incident, { url }: PageContext): Html {
  const what = quantity(owed, 'dead letter');
  return reasonForm({
    button: 'Dismiss…',
    path: `${incidentPath(incidentId)}/dismiss`,
    text: html`<b>Never replay ${owed === 1 ? 'it' : 'them'}?</b> ${what} ${owed === 1 ? 'leaves' : 'leave'}
      the counts, and can still be replayed until the event is pruned.`,
    fields: html`${nextField(url)} ${reasonField('for example: test data')}`,
    submit: html`<button class="btn sm">Dismiss ${what}</button>`,
    isLeft: true,
  });
}

/** Ends a subscription that this release's catalog does not list. */
export function retireForm(
  subscriber: string,
  topic: string,
  { url }: PageContext,
  place: 'in a row' | 'alone' = 'alone',
): Html {
  return reasonForm({
    button: html`Retire…<span class="vh"> ${subscriber}</span>`,
    path: `${subscriberPath(subscriber)}/retire`,
    text: html`<b>No release will deliver these again?</b> What waits and what died is dismissed, and the
      subscription no longer shows up.`,
    fields: html`${nextField(url)} ${hiddenField('topic', topic)}
    ${reasonField('for example: replaced by accounting in March')}`,
    submit: html`<button class="btn sm">Retire ${subscriber}<span class="vh"> on ${topic}</span></button>`,
    isLeft: place === 'alone',
  });
}

function nextField({ pathname, search }: URL): Html {
  return hiddenField('next', pathname + search);
}
