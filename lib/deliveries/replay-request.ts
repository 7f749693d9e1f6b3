import * as z from 'zod';

import { isTopicName, topics } from '../catalog/catalog.ts';
import { DAY, msOf } from '../time.ts';

/** The bus is younger than this, so no window needs to be wider. */
const WIDEST_MS = 3650 * DAY;

const AGO = 'write a whole number above 0 and a unit, s, m, h, d or w, for example 24h; ten years at most';

/** How far back from now. */
export const ago = z
  .string(AGO)
  .refine(isAgo, AGO)
  .meta({ pattern: '^\\d{1,9}[smhdw]$', description: 'How far back from now: `24h`, `90m`, `7d`.' });

const AGO_OR_INSTANT = `${AGO}; or an instant in UTC`;

/** As `ago`, or an instant in UTC: what a preview showed is replayed up to the moment of the preview. */
const agoOrInstant = z
  .string(AGO_OR_INSTANT)
  .refine((text) => isAgo(text) || isInstant(text), AGO_OR_INSTANT);

/** An instant in UTC that a database takes. */
export function isInstant(text: string): boolean {
  return z.iso.datetime().safeParse(text).success && Date.parse(text) >= 0;
}

function isAgo(text: string): boolean {
  const ms = msOf(text);
  return ms > 0 && ms <= WIDEST_MS;
}

const TOPIC = 'write a topic of the catalog';

/** Any topic that may have been in the catalog of a release: see `requireKnownTopic`. */
export const topicText = z
  .string(TOPIC)
  .regex(/^[a-z0-9_.-]{1,200}$/, TOPIC)
  .meta({ description: 'A topic of the catalog, or one that has events of another release.' });

export const topicName = z
  .string(TOPIC)
  .refine(isTopicName, TOPIC)
  .meta({ id: 'TopicName', enum: topics().map(([topic]) => topic), description: 'A topic of the catalog.' });

export const deliveryId = z
  .string()
  .regex(/^\d{1,18}-\d{1,18}$/, 'write a delivery id as the dead letters show it, for example 12-345')
  .meta({ description: 'A delivery, as the dead letters show it.' });

/** Why an operator does something. What no database takes is left out. */
export const ownWords = z
  .string()
  .transform((text) => text.toWellFormed().replaceAll('\0', '').trim())
  .pipe(z.string().max(500, 'write at most 500 characters'))
  .meta({ maxLength: 500, description: 'Why. It is kept in the log.' });

/** What an operator may ask for: a topic and a window, or deliveries by their ids. */
export const replayRequest = z
  .strictObject({
    topic: topicText.optional(),
    since: ago.optional().meta({
      description:
        'From how long ago, by the time of death (with `include: "all"`, of death or delivery): `24h`, `90m`, `7d`. Needed without `deliveryIds`, as `topic` is.',
    }),
    until: agoOrInstant
      .optional()
      .meta({ description: 'Up to how long ago, or up to an instant; up to now without it.' }),
    subscriber: z
      .string()
      .regex(/^[\w.-]{1,100}$/, 'write a subscriber of the catalog')
      .optional(),
    group: z
      .string()
      .regex(/^[0-9a-f]{16}$/, 'write a group as the dead letters show it')
      .optional()
      .meta({ description: 'Only the dead letters of one group of errors.' }),
    deliveryIds: z
      .array(deliveryId)
      .min(1)
      .max(1000)
      .optional()
      .meta({ description: 'These, whatever their topics and times.' }),
    include: z
      .enum(['dead_letters', 'all'], 'write dead_letters or all')
      .default('dead_letters')
      .meta({ description: '`all` also plays again what was delivered.' }),
    dryRun: z.boolean().default(false).meta({ description: 'Counts and changes nothing.' }),
    expectedCount: z
      .int()
      .nonnegative()
      .optional()
      .meta({ description: 'Refuse when another number matches by now.' }),
    limit: z.int().positive().max(100_000).optional().meta({ description: 'The oldest so many.' }),
    reason: ownWords.optional(),
    replayId: z
      .uuid('write a UUID')
      .optional()
      .meta({ description: 'An id of the caller’s own: asked for twice, it is replayed once.' }),
  })
  .superRefine(({ topic, since, deliveryIds }, context) => {
    const requireField = (path: string, message: string) =>
      context.addIssue({ code: 'custom', path: [path], message });
    if (deliveryIds) return;
    if (topic === undefined) requireField('topic', 'write a topic of the catalog, or deliveryIds');
    if (since === undefined) requireField('since', AGO);
  });

export type ReplayRequest = z.input<typeof replayRequest>;
export type ParsedReplayRequest = z.output<typeof replayRequest>;

/** The same as a form or a query writes it: texts, of which an empty one is left out; ids with commas between them. */
export const replayForm = z.preprocess(fromTexts, replayRequest);

const texts = z.record(z.string(), z.string());

function fromTexts(form: unknown): unknown {
  const fields = texts.safeParse(form);
  if (!fields.success) return form;
  const filled = Object.entries(fields.data).filter(([, text]) => text.trim() !== '');
  return Object.fromEntries(filled.map(([name, text]) => [name, valueOf(name, text)]));
}

function valueOf(name: string, text: string): unknown {
  switch (name) {
    case 'deliveryIds':
      return text.split(',');
    case 'expectedCount':
    case 'limit':
      return Number(text);
    case 'dryRun':
      // Anything else is no answer, and must not be taken for a no.
      return text === 'true' || (text === 'false' ? false : text);
    default:
      return text;
  }
}
