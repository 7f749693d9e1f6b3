import * as z from 'zod';
import { and, eq, gt, sql } from 'drizzle-orm';
import { v7 as uuidv7 } from 'uuid';

import { html } from '../../platform/markup.ts';
import type { Child, Html } from '../../platform/markup.ts';
import { printableJson } from '../../platform/visible.ts';
import { operatorActions } from '../../../drizzle/schema.ts';
import type { Database } from '../../platform/db/database.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { instantOf, MINUTE } from '../../platform/time.ts';
import { missingScope, reasonField, reasonForm } from './actions.ts';
import { eventPath } from './links.ts';
import { COPY_ICON } from './sections.ts';
import { quantity } from './words.ts';
import { say, strong, when } from './document.ts';
import type { Phrase } from './document.ts';
import type { PageContext } from './layout.ts';
import * as shape from './shapes.ts';
import type { Operator } from './operator.ts';

/** An operator who reloads the page has not asked again, and should not have to. */
const REVEALED_MS = 5 * MINUTE;

const reveal = z.object({ revealId: z.uuid(), until: shape.instant }).meta({
  id: 'Reveal',
  description: 'The reveal’s entry in the operator log, and until when its page shows the personal data.',
});

export type Reveal = z.output<typeof reveal>;

/** A payload, and what of it is hidden. */
export const payloadFields = {
  payload: z.unknown().describe('The event’s payload. Personal data is hidden unless it was revealed.'),
  hidden: z
    .array(z.object({ pointer: z.string(), kind: z.string().nullable() }))
    .describe('JSON Pointers of the hidden values, with the kind of each.'),
  isValid: z
    .boolean()
    .describe(
      'Whether the payload fits this release’s schema. In a newer version, or a topic that the catalog does not have, all values are hidden.',
    ),
  isRevealed: z.boolean(),
  reveal: reveal.nullable(),
  erasedAt: shape.instant
    .nullable()
    .describe('When the personal data in it was overwritten, at an operator’s word. Nothing brings it back.'),
};

type Payload = { readonly [Name in keyof typeof payloadFields]: z.output<(typeof payloadFields)[Name]> };

/** A payload, as a document shows it. */
export interface ShownPayload extends Payload {
  readonly generatedAt: string;
  /** Of the payload's schema. */
  readonly version: number;
  readonly eventId: string;
}

/** Draws a payload with its hidden values, and the form that shows them. */
export function payloadSection(view: ShownPayload, { operator }: PageContext): Html {
  const { isRevealed, hidden, version, eventId } = view;
  const path = eventPath(eventId);
  return html`<section aria-labelledby="h-payload">
    <div class="hrow">
      <h2 id="h-payload">Payload</h2>
      <span class="tag">version ${version}</span>
      <button class="btn sm quiet" type="button" data-js data-copy="#payload">
        ${COPY_ICON}<span>Copy</span>
      </button>
    </div>
    <p class="muted small">${hiddenPhrase(view).html}</p>
    <pre class="code" id="payload" tabindex="0" role="region" aria-label="Payload as JSON">
${payloadJson(view.payload, isRevealed)}</pre>
    ${!isRevealed && hidden.length > 0 && revealForm(path, operator.scopes.has('event-bus:reveal'))}
    ${
      isRevealed &&
      html`<p class="hide">
        <a class="btn sm" href="${path}">Hide personal data</a>
      </p>`
    }
  </section>`;
}

/** Says what of a payload is hidden, and what is shown. */
export function hiddenPhrase({
  hidden,
  isValid,
  isRevealed,
  reveal: made,
  generatedAt: now,
}: ShownPayload): Phrase {
  const unknown = isRevealed ? 'Any value may be personal data.' : 'Values that it does not name are hidden.';
  return say`${isRevealed && say`With personal data${made && say` shown until ${when(made.until, now)}`}. `}${
    !isValid && say`${strong('The payload does not match this release’s schema.')} ${unknown} `
  }${!isRevealed && hidden.length > 0 && `${quantity(hidden.length, 'value')} hidden.`}`;
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

/** Draws a payload as JSON, with a chip in the place of each hidden value. */
export function payloadJson(value: unknown, isRevealed: boolean): Child {
  // Every other part is a text, or a name with its colon.
  const parts = printableJson(value ?? null, 2).split(/("(?:\\.|[^"\\])*":?)/);
  return parts.map((part) => {
    if (part.startsWith('"') && part.endsWith(':')) return html`<span class="k">${part.slice(0, -1)}</span>:`;
    const [, hidden] = (!isRevealed && /^"\[(hidden(?:: [^\]]+)?)\]"$/.exec(part)) || [];
    return hidden === undefined ? part : html`<span class="red">${hidden}</span>`;
  });
}

/** @param at when it was logged, as epoch milliseconds. */
function revealOf(revealId: string, at: number): Reveal {
  return { revealId, until: instantOf(at + REVEALED_MS) };
}

/** The query of a page that a reveal leads to. A reload of it asks for no other reveal. */
export const revealQuery = z.object({
  revealed: z
    .uuid()
    .optional()
    .catch(undefined)
    .describe('A reveal that the same operator made here at most five minutes ago: shows its data again.'),
});

/**
 * Finds the reveal that a page shows again.
 *
 * @returns null unless this operator made it, of this very event, less than five minutes ago, and still has the scope.
 */
export async function findReveal(
  db: Database,
  { subject, scopes }: Operator,
  { revealed }: z.output<typeof revealQuery>,
  eventId: string,
): Promise<Reveal | null> {
  if (revealed === undefined || !scopes.has('event-bus:reveal')) return null;
  const { id, at, operator, action } = operatorActions;
  const isIts = eq(operatorActions.eventId, eventId);
  const isRecent = gt(at, sql`clock_timestamp() - ${REVEALED_MS}::float8 * interval '1 millisecond'`);
  const [made] = await db
    .select({ at })
    .from(operatorActions)
    .where(and(eq(id, revealed), eq(action, 'reveal'), eq(operator, subject), isIts, isRecent));
  return made ? revealOf(revealed, made.at.getTime()) : null;
}

/** Whose personal data is shown, to whom, and why. */
interface Revealed {
  readonly eventId: string;
  readonly by: string;
  readonly reason: string;
}

/**
 * Records that an operator sees the personal data of an event, and why.
 *
 * @returns null, and records nothing, for an unknown one.
 */
export async function recordReveal(db: Database, { eventId, by, reason }: Revealed): Promise<Reveal | null> {
  const revealId = uuidv7();
  const [recorded] = await run<{ at: number }>(driverOf(db), {
    text: RECORD,
    values: [eventId, revealId, by, reason],
  });
  return recorded ? revealOf(revealId, recorded.at) : null;
}

const RECORD = `
  insert into operator_actions (id, at, operator, action, topic, event_id, reason)
  select $2::uuid, clock_timestamp(), $3::text, 'reveal', topic, id, $4::text from events where id = $1::uuid
  returning (extract(epoch from at) * 1000)::float8 as at`;
