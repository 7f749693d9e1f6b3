import { desc, eq, sql } from 'drizzle-orm';
import * as z from 'zod';

import { erasures } from '../../../drizzle/schema.ts';
import { maskedName } from '../../components/erasures/erased-names.ts';
import type { Database } from '../../platform/db/connect.ts';
import { instantOf, instantOrNull } from '../../platform/time.ts';
import { now } from '../kit/clock.ts';
import * as shape from '../kit/shapes.ts';

const state = z.enum(['waiting', 'gathering', 'finding', 'erasing', 'settling', 'checking', 'ended']).meta({
  id: 'ErasureState',
  description:
    'How far an erasure is: `waiting` for producers whose transactions were open; `gathering` the person’s other names; `finding` the events; `erasing` them; `settling`, while relays end attempts that they had begun; `checking` what these wrote; `ended`.',
});

const erasureRecord = z
  .object({
    erasureId: z.uuid(),
    subjects: z.array(z.string()).meta({
      description: 'The names that were asked for. Of personal data only the first letter is kept.',
    }),
    exact: z.boolean(),
    requestedAt: shape.instant.meta({ description: 'Events created later are not erased.' }),
    requestedBy: z.string(),
    reason: z.string(),
    state,
    found: shape.count.meta({ description: 'Events that name the person, so far.' }),
    events: shape.count.meta({ description: 'Events whose payload had personal data.' }),
    deliveries: shape.count.meta({
      description: 'Deliveries whose attempts had errors, answers or reasons.',
    }),
    notifications: shape.count.meta({ description: 'Notifications that had an e-mail address.' }),
    texts: shape.count.meta({
      description: 'Texts of error groups, incidents and the like that held the person.',
    }),
    keysKept: shape.count.meta({
      description:
        'Events whose ordering key holds the person. It stays until their deliveries are settled: erase again then.',
    }),
    endedAt: shape.instant.nullable().meta({ description: 'Null while it is under way.' }),
  })
  .meta({ id: 'Erasure', description: 'An erasure of a person’s data.' });

export const erasureList = shape
  .listOf(erasureRecord)
  .meta({ id: 'ErasureList', description: 'Erasures, newest first.' });

export const erasureProgress = erasureRecord
  .extend({
    generatedAt: shape.instant,
    searched: shape.count.meta({ description: 'Events that the present state has read.' }),
    about: shape.count.meta({ description: 'About how many events there are.' }),
  })
  .meta({ id: 'ErasureProgress', description: 'An erasure, and how far it is.' });

export type ErasureRecord = z.output<typeof erasureRecord>;
export type ErasureList = z.output<typeof erasureList>;
export type ErasureProgress = z.output<typeof erasureProgress>;

export const listQuery = z.object(shape.page);

/** Lists erasures page by page, newest first. */
export async function readErasures(db: Database, query: z.output<typeof listQuery>): Promise<ErasureList> {
  const { limit, cursor } = query;
  const { requestedAt, id } = erasures;
  const isOlder = sql`(${requestedAt}, ${id}) < (select requested_at, id from erasures where id = ${cursor})`;
  const found = await db
    .select({ now, erasure: erasures })
    .from(erasures)
    .where(cursor === undefined ? undefined : isOlder)
    .orderBy(desc(requestedAt), desc(id))
    .limit(limit + 1);
  const generatedAt = instantOf(found[0]?.now ?? new Date());
  const items = found.map(({ erasure }) => recordOf(erasure));
  return shape.pageOf({ generatedAt, items }, limit, ({ erasureId }) => erasureId);
}

/** Reads one erasure. @returns null for an unknown one. */
export async function readErasure(db: Database, erasureId: string): Promise<ErasureProgress | null> {
  // The planner's estimate: to count ten million events takes seconds.
  const about = sql`greatest(searched, (select reltuples::bigint from pg_class where oid = 'events'::regclass))`;
  const [found] = await db
    .select({ now, erasure: erasures, about: about.mapWith(erasures.searched) })
    .from(erasures)
    .where(eq(erasures.id, erasureId));
  if (!found) return null;
  const { erasure } = found;
  const { searched } = erasure;
  return { generatedAt: instantOf(found.now), ...recordOf(erasure), searched, about: found.about };
}

function recordOf({ id, isExact, names, ...found }: typeof erasures.$inferSelect): ErasureRecord {
  const { requestedBy, reason, state: current, events, deliveries, notifications, texts, keysKept } = found;
  return {
    erasureId: id,
    // Masked permanently at the end.
    subjects: names?.filter(({ origin }) => origin === 'asked').map(maskedName) ?? found.subjects,
    exact: isExact,
    requestedAt: instantOf(found.requestedAt),
    requestedBy,
    reason,
    state: current,
    found: found.found,
    events,
    deliveries,
    notifications,
    texts,
    keysKept,
    endedAt: instantOrNull(found.endedAt),
  };
}
