import * as z from 'zod';

import { maskedName } from '../../components/erasures/erased-names.ts';
import type { ErasedName } from '../../components/erasures/erased-names.ts';
import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { instantOf, instantOrNull } from '../../platform/time.ts';
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

export const erasureList = z
  .object({
    generatedAt: shape.instant,
    items: z.array(erasureRecord),
    nextCursor: z.uuid().nullable(),
  })
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

export const listQuery = z.object({
  limit: shape.pageLimit,
  cursor: z.uuid('expected a cursor from an earlier answer, or none').optional(),
});

/** Lists erasures page by page, newest first. */
export async function readErasures(db: Database, query: z.output<typeof listQuery>): Promise<ErasureList> {
  const { limit, cursor = null } = query;
  const [row] = await run<{ found: { now: number; items: FoundErasure[] } }>(driverOf(db), {
    text: LIST,
    values: [cursor, limit + 1],
  });
  const { now, items } = row!.found;
  const kept = items.slice(0, limit);
  return {
    generatedAt: instantOf(now),
    items: kept.map(recordOf),
    nextCursor: items.length > limit ? (kept.at(-1)?.id ?? null) : null,
  };
}

/** Reads one erasure. @returns null for an unknown one. */
export async function readErasure(db: Database, erasureId: string): Promise<ErasureProgress | null> {
  const [row] = await run<{ found: FoundProgress }>(driverOf(db), { text: ONE, values: [erasureId] });
  if (!row) return null;
  const { now, erasure, about } = row.found;
  return { generatedAt: instantOf(now), ...recordOf(erasure), searched: erasure.searched, about };
}

/** Times are epoch milliseconds. */
interface FoundErasure {
  readonly id: string;
  readonly requested_at: number;
  readonly requested_by: string;
  readonly reason: string;
  readonly subjects: readonly string[];
  readonly is_exact: boolean;
  readonly names: readonly ErasedName[] | null;
  readonly state: ErasureRecord['state'];
  readonly searched: number;
  readonly found: number;
  readonly events: number;
  readonly deliveries: number;
  readonly notifications: number;
  readonly texts: number;
  readonly keys_kept: number;
  readonly ended_at: number | null;
}

interface FoundProgress {
  readonly now: number;
  readonly erasure: FoundErasure;
  readonly about: number;
}

function recordOf(found: FoundErasure): ErasureRecord {
  const { id, reason, state: now, events, deliveries, notifications, texts, names } = found;
  return {
    erasureId: id,
    // Masked permanently at the end.
    subjects: names?.filter(({ origin }) => origin === 'asked').map(maskedName) ?? [...found.subjects],
    exact: found.is_exact,
    requestedAt: instantOf(found.requested_at),
    requestedBy: found.requested_by,
    reason,
    state: now,
    found: found.found,
    events,
    deliveries,
    notifications,
    texts,
    keysKept: found.keys_kept,
    endedAt: instantOrNull(found.ended_at),
  };
}

const RECORD = `
  id, extract(epoch from requested_at) * 1000 as requested_at, requested_by, reason, subjects, is_exact, names, state,
  searched, found, events, deliveries, notifications, texts, keys_kept, extract(epoch from ended_at) * 1000 as ended_at`;

const LIST = `
  select json_build_object('now', extract(epoch from clock_timestamp()) * 1000, 'items', (
    select coalesce(json_agg(item), '[]') from (
      select ${RECORD} from erasures
      where $1::text is null or (requested_at, id) < (
        select earlier.requested_at, earlier.id from erasures as earlier where earlier.id = $1::text::uuid
      )
      order by erasures.requested_at desc, id desc limit $2::int
    ) as item
  )) as found`;

// The planner's estimate: to count ten million events takes seconds.
const ONE = `
  select json_build_object('now', extract(epoch from clock_timestamp()) * 1000, 'erasure', to_json(erasure),
    'about', greatest(searched, (select greatest(reltuples, 0)::bigint from pg_class where oid = 'events'::regclass))) as found
  from (select ${RECORD} from erasures where id = $1::text::uuid) as erasure`;
