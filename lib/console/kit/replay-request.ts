import * as z from 'zod';

import { isTopicName, topics } from '../../bus/catalog/catalog.ts';
import { DELIVERY_ID } from '../../bus/deliveries/delivery-id.ts';
import { hasPersonalData } from '../../platform/masking/personal.ts';
import { storable } from '../../platform/storable.ts';
import { DAY, msOf } from '../../platform/time.ts';

/** No event is older than this, so no window needs to be wider. */
const WIDEST_MS = 3650 * DAY;

const AGO = 'expected a time span such as 90m, 24h or 7d (units s, m, h, d, w), at most ten years';

/** Said where a filter has no window: it would take all that ever died. */
const NO_SINCE = `missing; ${AGO}: add since, or deliveryIds instead of a filter`;

/** A time span that ends now. */
export const ago = z
  .string(AGO)
  .refine(isAgo, AGO)
  .meta({ pattern: '^\\d{1,9}[smhdw]$', description: 'How far back from now: `24h`, `90m`, `7d`.' });

const AGO_OR_INSTANT = `${AGO}, or an instant in UTC such as 2026-02-21T09:35:00Z`;

/** As `ago`, or an instant in UTC: after a preview, the replay ends at the moment of the preview. */
const agoOrInstant = z
  .string(AGO_OR_INSTANT)
  .refine((text) => isAgo(text) || isInstant(text), AGO_OR_INSTANT);

/** Whether a text is an instant, with its offset, that the database accepts. */
export function isInstant(text: string): boolean {
  return (
    z.iso.datetime({ offset: true }).safeParse(text).success &&
    !BEYOND_POSTGRES.test(text) &&
    Date.parse(text) >= 0
  );
}

/** Postgres takes offsets of less than 16 hours. */
const BEYOND_POSTGRES = /[+-](?:1[6-9]|2\d):\d\d$/;

function isAgo(text: string): boolean {
  const ms = msOf(text);
  return ms > 0 && ms <= WIDEST_MS;
}

const TOPIC = 'expected a topic of the catalog, such as payment.captured';

/** Any topic that a release's catalog may have had; see `requireKnown`. */
export const topicText = z
  .string(TOPIC)
  .regex(/^[a-z0-9_.-]{1,200}$/, TOPIC)
  .describe('A topic of this or of another release’s catalog.');

export const topicName = z
  .string(TOPIC)
  .refine(isTopicName, TOPIC)
  .meta({ id: 'TopicName', enum: topics().map(([topic]) => topic), description: 'A topic of the catalog.' });

export const deliveryId = z
  .string()
  .regex(DELIVERY_ID, 'expected a delivery id, such as 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.accounting')
  .describe('A delivery id, such as `019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.accounting`.');

/** The detail of a 404. */
export const UNKNOWN_DELIVERY =
  'Unknown delivery. Copy its id from the list of dead letters or of held lanes, for example 019c7f3e-5d20-7a41-8c1e-2f6b0d9e4a77.accounting.';

/** Enough for a sentence or two, in characters. */
export const LONGEST_REASON = 500;

/** Why a reason is refused: the operators' log refuses changes, so no erasure could take a name out of it. */
export const NAMES_A_PERSON =
  'these words are kept forever, so they must not name a person: use a case number, such as 2026-114, instead of a name, an e-mail address, a telephone number or another number of a person';

/**
 * An operator's reason. Characters that Postgres refuses are removed. What looks like an e-mail address, a national id, a
 * telephone number, an account or a card is refused.
 */
export const ownWords = z
  .string()
  .transform((text) => storable(text).trim())
  .pipe(
    z
      .string()
      .max(LONGEST_REASON, `expected at most ${LONGEST_REASON} characters`)
      .refine((text) => !hasPersonalData(text), NAMES_A_PERSON),
  )
  .meta({ maxLength: LONGEST_REASON, description: 'The operator’s reason, kept in the operator log.' });

/** The fields that the requests of operations share. */
export const OPERATED = {
  reason: ownWords.optional().describe('The operator’s reason, kept in the operator log forever.'),
  dryRun: z.boolean().default(false).describe('Previews it, and changes nothing.'),
  expectedCount: z
    .int()
    .nonnegative()
    .optional()
    .describe('Refuses it unless exactly this many match, as the preview counted.'),
};

export interface Operated {
  readonly reason?: string | undefined;
  readonly dryRun: boolean;
  readonly expectedCount?: number | undefined;
}

/** An id chosen by the caller: a second request with it does nothing. */
export const ownId = z
  .uuid('expected a UUID')
  .optional()
  .describe('An id chosen by the caller. A second request with it does nothing.');

/** As many error groups as an address has room for. */
const MOST_GROUPS = 200;
export const LONGEST_GROUPS = MOST_GROUPS * 17;
const GROUPS = `expected an error group, 16 hexadecimal digits, or at most ${MOST_GROUPS} of them with commas between`;

/** One error group or several, as the check boxes of a form send them. */
const errorGroups = z
  .string()
  .regex(new RegExp(`^[0-9a-f]{16}(?:,[0-9a-f]{16}){0,${MOST_GROUPS - 1}}$`), GROUPS)
  .describe('Only the dead letters of this error group, or of several with commas between them.');

/** Words of an error. */
const errorWords = z.string().trim().max(200).describe('Only those whose error contains these words.');

/** Said where nothing but a time span selects dead letters: that would be all of them. */
const NO_FILTER =
  'expected a topic, a subscriber, a group, q or deliveryIds; or until beside since, for all of a time';

const PACE = 'expected a whole number of deliveries a minute, 1 to 1000000';

/** Chooses dead letters: of a filter and a window, or by their ids. */
export const CHOSEN = {
  topic: topicText.optional(),
  since: ago
    .optional()
    .describe(
      'Only deliveries that were dead-lettered (with `include: "all"`, also delivered) within this time: `24h`, `90m`, `7d`. Required, like a filter, unless `deliveryIds` is given.',
    ),
  until: agoOrInstant
    .optional()
    .describe('The end of that window: a time span before now, or an instant. By default now.'),
  subscriber: z
    .string()
    .regex(/^[\w.-]{1,100}$/, 'expected a subscriber of the catalog')
    .optional(),
  group: errorGroups.optional(),
  q: errorWords.optional(),
  incident: z
    .uuid('expected the id of an incident, a UUID')
    .optional()
    .describe('The incident that it is done for, and in whose log it then is.'),
  deliveryIds: z.array(deliveryId).min(1).max(1000).optional().describe('These deliveries alone.'),
};

type Chosen = z.output<z.ZodObject<typeof CHOSEN>>;

/** Refuses what would select all that ever died, a window that ends before it begins, and ids beside a filter of errors. */
export function requireChoice(asked: Chosen, context: z.RefinementCtx): void {
  const { topic, subscriber, group, q, until, since, deliveryIds } = asked;
  if (deliveryIds) {
    if (q || group !== undefined) refuse(context, 'deliveryIds', 'expected neither group nor q beside it');
    return;
  }
  if (![topic, subscriber, group, q, until].some(Boolean)) refuse(context, 'topic', NO_FILTER);
  if (since === undefined) refuse(context, 'since', NO_SINCE);
  else if (until !== undefined && msOf(until) >= msOf(since)) refuse(context, 'until', EMPTY_WINDOW);
}

function refuse(context: z.RefinementCtx, path: string, message: string): void {
  context.addIssue({ code: 'custom', path: [path], message });
}

const EMPTY_WINDOW = 'expected a shorter time span than since: the window ends before it begins';

/** A replay as an operator requests it. */
export const replayRequest = z
  .strictObject({
    ...CHOSEN,
    include: z
      .enum(['dead_letters', 'dismissed', 'all'], 'expected dead_letters, dismissed or all')
      .default('dead_letters')
      .describe(
        '`all` also replays delivered deliveries. `dismissed` replays only the dead letters that operators dismissed, which the others leave out.',
      ),
    ...OPERATED,
    limit: z.int().positive().max(100_000).optional().describe('Only this many, the oldest first.'),
    perMinute: z
      .int(PACE)
      .min(1, PACE)
      .max(1_000_000, PACE)
      .optional()
      .describe(
        'Puts back about this many deliveries a minute, the oldest first, the first ones at once. Without it all are put back at once.',
      ),
    replayId: ownId,
  })
  .superRefine((asked, context) => {
    const { topic, deliveryIds, group, q, incident, include } = asked;
    if (incident !== undefined && (group !== undefined || q || deliveryIds || include !== 'dead_letters'))
      refuse(context, 'incident', 'expected neither group, q, deliveryIds nor include beside it');
    if (include === 'dismissed' && (group !== undefined || q || deliveryIds))
      refuse(context, 'include', 'expected neither group, q nor deliveryIds beside dismissed');
    if (include === 'all' && q) refuse(context, 'q', 'expected no include beside it');
    if (!deliveryIds && topic === undefined && (incident !== undefined || include !== 'dead_letters'))
      refuse(context, 'topic', 'expected a topic of the catalog, or deliveryIds');
    requireChoice(asked, context);
  });

export type ParsedReplayRequest = z.output<typeof replayRequest>;

/** The options of the commands that choose dead letters. */
export const CHOOSING = {
  since: { value: '<24h>', help: 'dead-lettered within this time, such as 90m, 24h or 7d' },
  until: {
    value: '<1h>',
    help: 'dead-lettered before this time ago, or before an instant such as 2026-11-22T08:00:00Z',
  },
  subscriber: { value: '<name>', help: 'only this subscriber' },
  q: { name: 'search', value: '<words>', help: 'only errors that contain these words' },
  group: {
    value: '<group>',
    isList: true,
    help: 'only one group of equal errors, by its id in dead-letters --json; can be repeated',
  },
  deliveryIds: {
    name: 'delivery',
    value: '<deliveryId>',
    isList: true,
    help: 'this delivery; can be repeated',
  },
};
