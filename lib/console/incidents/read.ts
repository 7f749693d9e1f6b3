import * as z from 'zod';

import { refusingReplays } from '../../bus/deliveries/subscription.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import { FAILING, HALTING } from '../../components/incidents/halts.ts';
import { watchIncidents } from '../../components/incidents/watch.ts';
import type { Database } from '../../platform/db/database.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { alertState } from '../alerts/read.ts';
import { HELD_FIRST, HELD_LANES, heldLane, heldLaneOf } from '../held-lanes/held-lanes.ts';
import type { FoundHeldLane, HeldLane } from '../held-lanes/held-lanes.ts';
import { cursorOf, writeCursor, instantSql } from '../kit/fields.ts';
import { byState, bySubscriber, byTopic, shapesIn } from '../kit/filters.ts';
import * as shape from '../kit/shapes.ts';
import { logEntry, readOperatorLog } from '../replays/log.ts';
import { LISTED_ASIDE, SET_ASIDE, setAsideRow } from './set-aside.ts';
import { INCIDENT, WORST_FIRST, incident, incidentOf, incidentState } from './incident.ts';
import type { FoundIncident } from './incident.ts';

export const incidentList = z
  .object({
    generatedAt: shape.instant,
    items: z
      .array(incident)
      .describe('What happens now, what is owed, both the worst first, then what is closed, newest first.'),
    happening: shape.count.describe('How many happen now, over all pages.'),
    owed: shape.count.describe('How many are owed, over all pages.'),
    nextCursor: z.string().nullable().describe('The cursor of the incidents behind these.'),
    alerts: alertState,
  })
  .meta({ id: 'IncidentList', description: 'Incidents, live ones first.' });

export type IncidentList = z.output<typeof incidentList>;

export const incidentFilters = {
  state: byState(incidentState, 'only happening, owed or closed ones'),
  topic: byTopic,
  subscriber: bySubscriber,
};

export const incidentQuery = z.object({
  ...shapesIn(incidentFilters),
  limit: shape.pageLimit,
  /** How many come before the page: live ones have no order that lasts. */
  cursor: cursorOf(z.int().nonnegative()).optional(),
});

export type IncidentQuery = z.output<typeof incidentQuery>;

/** Lists incidents as they are now. One that gets worse between two pages may be on neither. */
export async function readIncidents(
  db: Database,
  query: IncidentQuery,
): Promise<Omit<IncidentList, 'alerts'>> {
  await watchIncidents(db);
  const { state = null, topic = null, subscriber = null, limit, cursor = 0 } = query;
  const [row] = await run<{ found: Found }>(driverOf(db), {
    text: LIST,
    values: [state, topic, subscriber, limit + 1, cursor],
  });
  const { items, ...found } = row!.found;
  return {
    ...found,
    items: items.slice(0, limit).map(incidentOf),
    nextCursor: items.length > limit ? writeCursor(cursor + limit) : null,
  };
}

interface Found extends Pick<IncidentList, 'generatedAt' | 'happening' | 'owed'> {
  readonly items: readonly FoundIncident[];
}

const LIST = `
  with matching as materialized (
    select * from incidents
    where ($2::text is null or topic = $2::text) and ($3::text is null or subscriber = $3::text)
  )
  select json_build_object(
    'generatedAt', ${instantSql('clock_timestamp()')},
    'items', (
      select coalesce(json_agg(${INCIDENT} order by closed_at desc nulls first, ${WORST_FIRST}), '[]') from (
        select * from matching where $1::text is null or state = $1::text
        order by closed_at desc nulls first, ${WORST_FIRST} limit $4::int offset $5::int
      ) as incidents
    ),
    'happening', (select count(*) from matching where state = 'happening'),
    'owed', (select count(*) from matching where state = 'owed')
  ) as found`;

/** More are on a page of their own. */
const LISTED_OPEN = 50;

export const openIncidentFields = {
  incidents: z
    .array(incident)
    .max(LISTED_OPEN)
    .describe('What goes wrong: what happens now, then what is owed, each the worst first.'),
  incidentCounts: z.object({ happening: shape.count, owed: shape.count }),
};

const openIncidents = z.object(openIncidentFields);
export type OpenIncidents = z.output<typeof openIncidents>;

/** Reads the worst of the open incidents as they are now, and counts all. */
export async function readOpenIncidents(db: Database): Promise<OpenIncidents> {
  const { items, happening, owed } = await readIncidents(db, { limit: LISTED_OPEN });
  return {
    incidents: items.filter(({ state }) => state !== 'closed'),
    incidentCounts: { happening, owed },
  };
}

/** As many as a page lists. */
const LISTED_LANES = 20;
const LISTED_ACTIONS = 20;

export const incidentView = incident
  .extend({
    generatedAt: shape.instant,
    lanes: z
      .array(heldLane)
      .describe('Its blocked lanes, the next attempt first, then those that a dead letter halts.'),
    setAside: z
      .array(setAsideRow)
      .max(LISTED_ASIDE)
      .describe('Of an incident of the bus itself: what it set aside and nobody has repaired, newest first.'),
    refusesReplays: z
      .boolean()
      .describe(
        'Whether the subscriber refuses replays of the topic: its dead letters are settled otherwise, then dismissed.',
      ),
    actions: z
      .array(logEntry)
      .max(LISTED_ACTIONS)
      .describe('What operators did on it, its replays too, newest first.'),
  })
  .meta({
    id: 'IncidentView',
    description: 'One incident, with what it blocks, what it owes and what was done.',
  });

export type IncidentView = z.output<typeof incidentView>;

type FailingLane = HeldLane & { readonly nextAttemptAt: string };

/** The lanes whose delivery is attempted again: a dead letter halts the others. */
export function failingLanes({ lanes }: Pick<IncidentView, 'lanes'>): readonly FailingLane[] {
  return lanes.filter((lane): lane is FailingLane => lane.nextAttemptAt !== null);
}

/** The statement's result. */
interface FoundOne extends Pick<IncidentView, 'generatedAt' | 'setAside'> {
  readonly incident: FoundIncident;
  readonly lanes: readonly FoundHeldLane[];
}

/**
 * Reads one incident as it is now.
 *
 * @param attached tells whose handlers refuse replays, and how many attempts a delivery has.
 * @param most blocked lanes.
 * @returns null for an unknown one.
 */
export async function readIncident(
  db: Database,
  id: string,
  attached: readonly AttachedSubscriber[] = [],
  most = LISTED_LANES,
): Promise<IncidentView | null> {
  await watchIncidents(db);
  const [row] = await run<{ found: FoundOne }>(driverOf(db), { text: DETAIL, values: [id, most] });
  if (!row) return null;
  const { incident: one, lanes, ...found } = row.found;
  const log = await readOperatorLog(db, { limit: LISTED_ACTIONS }, id);
  return {
    ...incidentOf(one),
    ...found,
    lanes: lanes.map((lane) => heldLaneOf(lane, attached)),
    actions: log.items,
    refusesReplays: refusingReplays(attached).includes(`${one.topic} ${one.subscriber}`),
  };
}

// A lane whose error has no incident of its own, because an older release recorded it or there are too many, is shown by those
// of its kind.
const DETAIL = `
  with clock as materialized (
    select clock_timestamp() as now
  ),
  incident as materialized (
    select * from incidents where id = $1::text::uuid
  ),
  open_group as materialized (
    select incidents.error_group from incident join incidents using (topic, subscriber) where incidents.closed_at is null
  ),
  blocking as materialized (
    -- A lane may have one of each state; the first one blocks it. An operator's action may come after its failure.
    select distinct on (lane, ordering_key) open.*,
      jsonb_path_query_array(attempt_log, '$[*] ? (@.outcome == "failed")') -> -1 as failure
    from incident join (${FAILING} union all ${HALTING}) as open using (topic, subscriber)
    where incident.state = 'happening' order by lane, ordering_key, position
  ),
  first as materialized (
    select blocking.* from blocking, incident
    where case when blocking.state = 'dead_lettered' then blocking.error_group = incident.error_group
      else failure ->> 'group' = incident.error_group or failure ->> 'kind' = incident.kind and not exists (
        select from open_group where open_group.error_group = failure ->> 'group'
      ) end
    order by blocking.state, due_at, dead_lettered_at limit $2::int
  ),
  ${HELD_FIRST}
  select json_build_object(
    'generatedAt', ${instantSql('clock.now')},
    'incident', ${INCIDENT},
    'lanes', ${HELD_LANES},
    'setAside', ${SET_ASIDE}
  ) as found
  from clock, incident as incidents`;
