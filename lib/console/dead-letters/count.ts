import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import type { Badges } from '../kit/layout.ts';

/** Counts what the navigation of every page shows: all dead letters, and the incidents that are happening. */
export async function countBadges(db: Database): Promise<Badges> {
  const [row] = await run<Badges>(driverOf(db), { text: COUNT, values: [] });
  return row!;
}

const COUNT = `
  select (select coalesce(sum(dead_lettered), 0)::float8 from error_groups) as "deadLetters",
    (select count(*)::float8 from incidents where closed_at is null and state = 'happening') as happening`;
