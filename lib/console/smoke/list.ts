import * as z from 'zod';

import type { Database } from '../../platform/db/connect.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import {
  count,
  field,
  instant,
  instantOrNull,
  instantSql,
  jsonOf,
  shapesOf,
  text,
  textOrNull,
} from '../kit/fields.ts';
import * as shape from '../kit/shapes.ts';

const recordFields = {
  smokeTestId: field(z.uuid(), 'test.id'),
  startedAt: instant('started_at'),
  startedBy: text('started_by'),
  origin: textOrNull(
    `case when webhooks is distinct from '[]' then origin end`,
    'Where the webhooks were sent to; null: nowhere.',
  ),
  subscribers: count('cardinality(subscribers)', 'Subscribers that the test event was for.'),
  arrived: count('coalesce(arrived, 0)', 'Those that have it.'),
  webhooks: count(`coalesce(jsonb_array_length(webhooks), 0)`, 'Webhooks that were sent.'),
  accepted: count(
    `(
      select count(*) from jsonb_array_elements(coalesce(webhooks, '[]')) as sent(webhook)
      where webhook ->> 'problem' is null
    )`,
    'Those that their endpoint accepted.',
  ),
  endedAt: instantOrNull('ended_at', 'When what had not arrived was dismissed, after ten minutes.'),
};
const record = z.object(shapesOf(recordFields));

export const smokeTestList = shape
  .listOf(record.meta({ id: 'SmokeTestRecord' }))
  .meta({ id: 'SmokeTestList', description: 'Smoke tests of the last month, newest first.' });

export type SmokeTestRecord = z.output<typeof record>;
export type SmokeTestList = z.output<typeof smokeTestList>;

export const listQuery = z.object(shape.page);

/** Lists smoke tests page by page, newest first. */
export async function readSmokeTests(
  db: Database,
  { limit, cursor }: z.output<typeof listQuery>,
): Promise<SmokeTestList> {
  const [row] = await run<{ generatedAt: string; items: SmokeTestRecord[] }>(driverOf(db), {
    text: LIST,
    values: [cursor ?? null, limit + 1],
  });
  return shape.pageOf(row!, limit, ({ smokeTestId }) => smokeTestId);
}

const LIST = `
  with test as materialized (
    select * from smoke_tests
    where $1::text is null or (started_at, id) < (
      select started_at, id from smoke_tests where id = $1::text::uuid
    )
    order by started_at desc, id desc limit $2::int
  ),
  arrival as (
    select event_id, count(*) as arrived from deliveries
    where event_id = any (array(select id from test)) and state = 'delivered' group by event_id
  )
  select ${instantSql('clock_timestamp()')} as "generatedAt", (
    select coalesce(json_agg(${jsonOf(recordFields)} order by started_at desc, test.id desc), '[]')
    from test left join arrival on event_id = test.id
  ) as items`;
