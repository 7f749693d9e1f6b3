import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { jsonOf } from '../kit/fields.ts';
import type { Badges } from '../kit/navigation.ts';
import { pauseFields } from '../kit/pauses.ts';

/** Reads what every page shows: how many dead letters there are, how many incidents happen now, and the pauses. */
export async function countBadges(db: Database): Promise<Badges> {
  const [row] = await run<Badges>(driverOf(db), { text: COUNT, values: [] });
  return row!;
}

const COUNT = `
  select (select coalesce(sum(dead_lettered), 0)::float8 from error_groups) as "deadLetters",
    (select count(*)::float8 from incidents where closed_at is null and state = 'happening') as happening,
    (select coalesce(json_agg(${jsonOf(pauseFields, { subscriber: 'subscriber' })} order by subscriber, topic), '[]')
      from pauses) as pauses`;
