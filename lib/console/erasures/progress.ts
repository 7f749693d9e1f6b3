import { eq, sql } from 'drizzle-orm';
import * as z from 'zod';

import { erasures } from '../../../drizzle/schema.ts';
import { maskedName } from '../../components/erasures/erased-names.ts';
import type { Database } from '../../platform/db/database.ts';
import { instantOf, instantOrNull } from '../../platform/time.ts';
import { now } from '../kit/fields.ts';
import { mono } from '../kit/document.ts';
import type { HowFar } from '../kit/progress.ts';
import * as shape from '../kit/shapes.ts';
import { count, joinNames, quantity } from '../kit/words.ts';

const erasureState = z
  .enum(['waiting', 'gathering', 'finding', 'erasing', 'settling', 'checking', 'ended'])
  .meta({
    id: 'ErasureState',
    description:
      'How far an erasure is: `waiting` for producers whose transactions were open; `gathering` the person’s other names; `finding` the events; `erasing` them; `settling`, while relays end attempts that they had begun; `checking` what these wrote; `ended`.',
  });

export const erasureProgress = z
  .object({
    generatedAt: shape.instant,
    erasureId: z.uuid(),
    subjects: z
      .array(z.string())
      .describe('The names that were asked for. Of personal data only the first letter is kept.'),
    exact: z.boolean(),
    requestedAt: shape.instant.describe('Events created later are not erased.'),
    requestedBy: z.string(),
    reason: z.string(),
    state: erasureState,
    found: shape.count.describe('Events that name the person, so far.'),
    events: shape.count.describe('Events whose payload had personal data.'),
    deliveries: shape.count.describe('Deliveries whose attempts had errors, answers or reasons.'),
    notifications: shape.count.describe('Notifications that had an e-mail address.'),
    texts: shape.count.describe('Texts of error groups, incidents and the like that held the person.'),
    keysKept: shape.count.describe(
      'Events whose ordering key holds the person. It stays until their deliveries are settled: erase again then.',
    ),
    searched: shape.count.describe('Events that the present state has read.'),
    about: shape.count.describe('About how many events there are.'),
    endedAt: shape.instant.nullable().describe('Null while it is under way.'),
  })
  .meta({ id: 'ErasureProgress', description: 'An erasure of a person’s data, and how far it is.' });

export type ErasureProgress = z.output<typeof erasureProgress>;

/** Reads one erasure. @returns null for an unknown one. */
export async function readErasure(db: Database, erasureId: string): Promise<ErasureProgress | null> {
  // The planner's estimate: to count ten million events takes seconds.
  const about = sql`greatest(searched, (select reltuples::bigint from pg_class where oid = 'events'::regclass))`;
  const [found] = await db
    .select({ now, erasure: erasures, about: about.mapWith(erasures.searched) })
    .from(erasures)
    .where(eq(erasures.id, erasureId));
  if (!found) return null;
  const { id, isExact, names, subjects, requestedAt, endedAt, ...erasure } = found.erasure;
  return erasureProgress.parse({
    ...erasure,
    generatedAt: instantOf(found.now),
    erasureId: id,
    // Masked permanently at the end.
    subjects: names?.filter(({ origin }) => origin === 'asked').map(maskedName) ?? subjects,
    exact: isExact,
    requestedAt: instantOf(requestedAt),
    about: found.about,
    endedAt: instantOrNull(endedAt),
  });
}

/** Says how far an erasure is, and what it leaves. */
export function erasureFar(view: ErasureProgress): HowFar {
  const { subjects, exact, endedAt } = view;
  const isUnderWay = endedAt === null;
  return {
    of: mono(joinNames(subjects)),
    lead: 'Ids, order, counts and states of events stay; their personal data does not.',
    words: isUnderWay ? `${stateWords(view)}…` : outcomeWords(view),
    facts: [
      [
        'Searched for',
        exact ? 'the given names alone' : 'the given names, and e-mail addresses found beside them',
      ],
      isUnderWay && [
        'To stop it',
        'It can’t be stopped: what is overwritten is gone. The cron continues it.',
      ],
      ['Later events', 'are not erased: ask again once the person’s last one has been recorded'],
    ],
  };
}

/** Without its end. */
function stateWords({ state, found, events, searched, about }: ErasureProgress): string {
  switch (state) {
    case 'waiting':
      return 'Waiting for producers whose transactions were open when it was requested';
    case 'gathering':
    case 'finding':
      return `Searching: ${quantity(found, 'event')} found, ${count(searched)} of about ${count(about)} events read`;
    case 'erasing':
      return `Erasing: ${count(events)} of ${quantity(found, 'event')} overwritten`;
    default:
      return `${quantity(events, 'event')} overwritten, waiting for relays to end the attempts that they had begun`;
  }
}

/** Says what was overwritten. */
function outcomeWords({
  found,
  events,
  deliveries,
  notifications,
  texts,
  keysKept,
}: ErasureProgress): string {
  if (found + notifications + texts === 0) return 'Nothing names this person.';
  const parts = [
    events > 0 && quantity(events, 'payload'),
    deliveries > 0 && `the attempts of ${quantity(deliveries, 'delivery')}`,
    notifications > 0 && quantity(notifications, 'address of notifications', 'addresses of notifications'),
    texts > 0 && quantity(texts, 'other text'),
  ].filter((part) => part !== false);
  const kept = `${quantity(keysKept, 'ordering key')} with the person stay until their deliveries are settled: erase again then.`;
  const named = `${quantity(found, 'event')} named the person.${keysKept > 0 ? ` ${kept}` : ''}`;
  return parts.length === 0
    ? `${named} None of it was left to erase.`
    : `Erased: ${joinNames(parts)}. ${named}`;
}
