import type { Database } from '../../platform/db/database.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { namesIn, OPERATOR_NAMES } from '../kit/document.ts';
import { jsonOf } from '../kit/fields.ts';
import { COUNTED } from '../kit/layout.ts';
import type { Badges } from '../kit/layout.ts';
import { pauseFields } from '../kit/pauses.ts';

/**
 * Reads what every page shows: how many dead letters there are (up to `COUNTED`), how many incidents happen now, the
 * pauses, and what operators are called.
 */
export async function countBadges(db: Database): Promise<Badges> {
  const [row] = await run<Omit<Badges, 'names'> & { readonly names: Readonly<Record<string, string>> }>(
    driverOf(db),
    { text: COUNT, values: [] },
  );
  const { names, ...badges } = row!;
  return { ...badges, names: namesIn(names) };
}

const COUNT = `
  select (
      select count(*)::float8 from (select from exceptions where dead_lettered_at is not null limit ${COUNTED}) as first
    ) as "deadLetters",
    (select count(*)::float8 from incidents where closed_at is null and state = 'happening') as happening,
    (select coalesce(json_agg(${jsonOf(pauseFields, { subscriber: 'subscriber' })} order by subscriber, topic), '[]')
      from pauses) as pauses,
    ${OPERATOR_NAMES} as names`;
