import * as z from 'zod';

import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { printableJson } from '../../platform/visible.ts';
import { missingScope, reasonField, reasonForm } from './actions.ts';
import { COPY_ICON, LOCK_ICON, WARNING_ICON } from './icons.ts';
import { time } from './instants.ts';
import type { PageContext } from './layout.ts';
import { reveal as revealShape } from './reveal.ts';
import { alert } from './sections.ts';
import * as shape from './shapes.ts';
import { quantity } from './words.ts';

/** A payload, and what of it is hidden. */
export const payloadFields = {
  payload: z
    .unknown()
    .meta({ description: 'The event’s payload. Personal data is hidden unless it was revealed.' }),
  hidden: z
    .array(z.object({ pointer: z.string(), kind: z.string().nullable() }))
    .meta({ description: 'JSON Pointers of the hidden values, with the kind of each.' }),
  isValid: z.boolean().meta({
    description:
      'Whether the payload fits this release’s schema. In a newer version, or a topic that the catalog does not have, all values are hidden.',
  }),
  isRevealed: z.boolean(),
  reveal: revealShape.nullable(),
  erasedAt: shape.instant.nullable().meta({
    description:
      'When the personal data in it was overwritten, at an operator’s word. Nothing brings it back.',
  }),
};

type Payload = { readonly [Name in keyof typeof payloadFields]: z.output<(typeof payloadFields)[Name]> };

/** A payload, as a document shows it. */
export interface ShownPayload extends Payload {
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
${payloadJson(view.payload, hidden)}</pre>
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

/** Says in a terminal what of a payload is hidden. */
export function hiddenWords({ hidden, isValid, isRevealed, erasedAt }: Payload): string {
  if (isRevealed) return ', with personal data';
  if (!isValid) return ', which does not match its schema: all unknown fields are hidden';
  if (erasedAt !== null) return ', whose personal data was erased';
  return hidden.length === 0 ? '' : `, ${quantity(hidden.length, 'value')} of personal data hidden`;
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

const INDENT = '  ';

/** Hidden personal data: its JSON Pointer, and its kind where the schema names one. */
type Hidden = readonly { readonly pointer: string; readonly kind: string | null }[];

/** Draws a payload as JSON, with a chip in the place of each hidden value. */
export function payloadJson(value: unknown, hidden: Hidden = []): Html {
  const kinds = new Map(hidden.map(({ pointer, kind }) => [pointer, kind]));
  return html`${draw(value, { pointer: '', indent: '', kinds })}`;
}

interface Place {
  readonly pointer: string;
  readonly indent: string;
  readonly kinds: ReadonlyMap<string, string | null>;
}

function draw(value: unknown, place: Place): Child {
  const kind = place.kinds.get(place.pointer);
  if (kind !== undefined) return chip(kind);
  if (Array.isArray(value))
    return brackets(
      '[',
      ']',
      value.map((item, index) => draw(item, within(place, index))),
      place,
    );
  if (typeof value === 'object' && value !== null) {
    const members = Object.entries(value).map(
      ([key, member]) =>
        html`<span class="k">${printableJson(key)}</span>: ${draw(member, within(place, key))}`,
    );
    return brackets('{', '}', members, place);
  }
  return printableJson(value ?? null);
}

function chip(kind: string | null): Html {
  return html`<span class="red">hidden${kind !== null && `: ${kind}`}</span>`;
}

function brackets(open: string, close: string, lines: readonly Child[], { indent }: Place): Child {
  if (lines.length === 0) return open + close;
  return [
    open,
    lines.map((line, index) => [index === 0 ? '\n' : ',\n', indent, INDENT, line]),
    '\n',
    indent,
    close,
  ];
}

/** @see https://www.rfc-editor.org/rfc/rfc6901 for the escapes in a pointer. */
function within({ pointer, indent, kinds }: Place, key: string | number): Place {
  const token = String(key).replaceAll('~', '~0').replaceAll('/', '~1');
  return { pointer: `${pointer}/${token}`, indent: indent + INDENT, kinds };
}
