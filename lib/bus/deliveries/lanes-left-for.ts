import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run, TURN_LIMIT_MS } from '../../platform/db/statement.ts';
import type { LaneOutcome, Settled } from './settle.ts';

/**
 * Finds the lanes that keys have left for in an earlier settlement of these outcomes, whose answer was lost. A second
 * settlement does not tell: it no longer holds the lanes that they left.
 */
export async function lanesLeftFor(
  db: Database,
  outcomes: readonly LaneOutcome[],
): Promise<Settled['leftFor']> {
  const left = await run<{ id: string; home: string; key: string }>(driverOf(db), {
    text: LEFT,
    values: [JSON.stringify(outcomes.map(({ id, token }) => ({ home: id, token })))],
    limitMs: TURN_LIMIT_MS,
  });
  return new Map(left.map(({ id, home, key }) => [`${home} ${key}`, id]));
}

const LEFT = `
  select id::text, home_id::text as home, held_key as key
  from json_to_recordset($1::text::json) as asked(home bigint, token uuid)
    join lanes on home_id = home and lease_token = token`;
