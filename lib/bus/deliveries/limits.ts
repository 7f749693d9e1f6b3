import type { Database } from '../../platform/db/connect.ts';
import { limitStatements, run } from '../../platform/db/statement.ts';
import { onceFor } from '../../platform/once-for.ts';
import type { AttachedSubscriber } from '../subscribers/subscriber.ts';

/** The lists whose limits this process has published in a database. */
const publishedIn = onceFor<Database, WeakSet<readonly AttachedSubscriber[]>>(() => new WeakSet());

/** Publishes limits before the first turn that hands over their subscribers. One that has none any more is the cron's duty. */
export async function publishNewLimits(db: Database, attached: readonly AttachedSubscriber[]): Promise<void> {
  const known = publishedIn(db);
  if (known.has(attached)) return;
  if (attached.some(({ limits }) => limits !== null)) await publishLimits(db, attached);
  known.add(attached);
}

/**
 * Writes the limits of subscribers to where claims read them, so that they hold over all relays together, those of an older
 * release too. Those of subscribers that have none are deleted. Of two processes with different limits the later one counts.
 */
export async function publishLimits(db: Database, attached: readonly AttachedSubscriber[]): Promise<void> {
  const names = [...new Set(attached.map(({ name }) => name))];
  const limits = names.flatMap((name) => {
    const limited = attached.find((one) => one.name === name && one.limits !== null)?.limits;
    const { rate = null, concurrency = null } = limited ?? {};
    return limited ? [{ name, count: rate?.count, ms: rate?.ms, concurrency }] : [];
  });
  await db.transaction(async (tx) => {
    await limitStatements(tx);
    await run(tx, { text: PUBLISH, values: [JSON.stringify(names), JSON.stringify(limits)] });
  });
}

const PUBLISH = `
  with given as (
    select * from jsonb_to_recordset($2::text::jsonb) as given(name text, count int, ms bigint, concurrency int)
  ),
  gone as (
    delete from subscriber_limits
    where subscriber in (select jsonb_array_elements_text($1::text::jsonb)) and subscriber not in (select name from given)
  )
  insert into subscriber_limits as known (subscriber, rate_count, rate_ms, concurrency)
  select name, count, ms, concurrency from given order by name
  on conflict (subscriber) do update set rate_count = excluded.rate_count, rate_ms = excluded.rate_ms,
    concurrency = excluded.concurrency
  where (known.rate_count, known.rate_ms, known.concurrency)
    is distinct from (excluded.rate_count, excluded.rate_ms, excluded.concurrency)`;
