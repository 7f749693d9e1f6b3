import { html } from '../../platform/markup.ts';
import type { Html } from '../../platform/markup.ts';
import { missingScope, reasonField, reasonForm } from '../kit/actions.ts';
import { COPY_ICON, LOCK_ICON, WARNING_ICON } from '../kit/icons.ts';
import { time } from '../kit/instants.ts';
import type { PageContext } from '../kit/layout.ts';
import { alert } from '../kit/sections.ts';
import { quantity } from '../kit/words.ts';
import type { DeadLetter } from './delivery.ts';
import { payload } from './payload.ts';

interface ShownPayload extends Pick<
  DeadLetter,
  'payload' | 'hidden' | 'isValid' | 'isRevealed' | 'reveal' | 'erasedAt'
> {
  readonly generatedAt: string;
  /** Of the payload's schema. */
  readonly version: number;
  /** The page that shows it. Personal data is revealed at `/reveal` below it. */
  readonly path: string;
}

/** Draws a payload with its hidden values, and the form that shows them. */
export function payloadSection(view: ShownPayload, { operator }: PageContext): Html {
  const { isRevealed, reveal, isValid, version, path, generatedAt } = view;
  const hidden = isRevealed ? [] : view.hidden;
  return html`<section aria-labelledby="h-payload">
    <div class="hrow">
      <h2 id="h-payload">Payload</h2>
      <span class="tag">version ${version}</span>
      ${hidden.length > 0 && html`<span class="tag pii">${LOCK_ICON}${quantity(hidden.length, 'value')} hidden</span>`}
      ${
        reveal !== null &&
        html`<span class="tag late">personal data shown until ${time(reveal.until, generatedAt)}</span>`
      }
      <button class="btn sm quiet" type="button" data-js data-copy="#payload">
        ${COPY_ICON}<span>Copy</span>
      </button>
    </div>
    ${
      view.erasedAt !== null &&
      html`<p class="muted small">
        The personal data of this event was erased at ${time(view.erasedAt, generatedAt)}. Nothing brings it
        back.
      </p>`
    }
    ${!isValid && unknownSchemaWarning(isRevealed)}
    <pre class="code" id="payload" tabindex="0" role="region" aria-label="Payload as JSON">
${payload(view.payload, hidden)}</pre>
    ${hidden.length > 0 && revealForm(path, operator.scopes.has('event-bus:reveal'))}
    ${
      isRevealed &&
      html`<p class="hide">
        <a class="btn sm" href="${path}">Hide personal data</a>
      </p>`
    }
  </section>`;
}

function unknownSchemaWarning(isRevealed: boolean): Html {
  const consequence = isRevealed
    ? 'Any value may be personal data.'
    : 'Values that the schema does not name are hidden.';
  return alert(
    'fail',
    WARNING_ICON,
    html`<b>The payload does not match this release’s schema.</b> ${consequence}`,
  );
}

function revealForm(path: string, mayReveal: boolean): Html {
  if (!mayReveal) return missingScope('Reveal', 'event-bus:reveal');
  return reasonForm({
    button: 'Reveal… (logged)',
    path: `${path}/reveal`,
    text: html`<b>Show the personal data in this event?</b> Your name, the time and the reason are logged.`,
    fields: reasonField('for example: the tenant asks which booking this is', 'Why you need to see it'),
    submit: html`<button class="btn sm">Reveal</button>`,
    isLeft: true,
  });
}
