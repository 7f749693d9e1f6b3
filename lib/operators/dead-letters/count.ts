import type { Database } from '../../db/connect.ts';
import { driverOf, run } from '../../db/statement.ts';

/** Counts all dead letters. */
export async function countDeadLetters(db: Database): Promise<number> {
  const [row] = await run<{ count: number }>(driverOf(db), {
    text: 'select coalesce(sum(dead_lettered), 0)::float8 as count from error_groups',
    values: [],
  });
  return row!.count;
}
