import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { ROOT, withChanges } from '../../chaos/build.ts';
import type { Change } from '../../chaos/build.ts';

const FAN_OUT = 'drizzle/functions/postbud_fan_out_3.sql';
const TURN = 'drizzle/functions/postbud_turn_4.sql';
const BEGIN_BACKFILL = 'drizzle/functions/postbud_begin_backfill_1.sql';

/** The key of the locks that processes wait for at a gate: each has two, for one gate and the next, so that none is overrun. */
export const GATES = 77_001;

/**
 * What a played schedule adds to the database:
 *
 * - gates, at which a process waits until the player lets it go on: the steps of a turn are the statements between them. A
 *   producer's are before and after its one statement reads the clock, which a function of the same name stands for;
 * - choices, which time would make: whether a turn tries the topic's lock, and whether it waits for long. And what becomes due
 *   while a turn is held is due for it;
 * - the effects of a transactional handler, and steps of the clock;
 * - a backfill that begins only when the player says so.
 */
const INSTRUMENTS = `
  create schema model;
  create table model.choices (who int primary key, tries boolean not null, is_long_ago boolean not null);
  create table model.effects (event int not null);
  create table model.clock_steps (step interval not null);
  create function model.who() returns int language sql as $$
    select substring(current_setting('application_name') from '^model ([0-9]+)$')::int
  $$;
  create function model.gate() returns void language plpgsql as $$
  declare
    lock int := model.who() * 2 + coalesce(nullif(current_setting('model.parity', true), '')::int, 0);
  begin
    if lock is not null then
      perform pg_advisory_lock(${GATES}, lock);
      perform pg_advisory_unlock(${GATES}, lock);
      perform set_config('model.parity', (1 - lock % 2)::text, false);
    end if;
  end $$;
  create function model.stepped() returns interval language sql as $$
    select coalesce(sum(step), '0') from model.clock_steps
  $$;
  create function model.now() returns timestamptz language sql as $$
    select pg_catalog.now() + model.stepped()
  $$;
  create function model.clock_timestamp() returns timestamptz language plpgsql volatile as $$
  declare
    at timestamptz;
  begin
    if model.who() >= 10 then perform model.gate(); end if;
    at := pg_catalog.clock_timestamp() + model.stepped();
    if model.who() >= 10 then perform model.gate(); end if;
    return at;
  end $$;
  create function model.tries() returns boolean language plpgsql volatile as $$
  begin
    return (select tries from model.choices where who = model.who());
  end $$;
  create function model.patience() returns interval language plpgsql volatile as $$
  begin
    return case when (select is_long_ago from model.choices where who = model.who()) then '0' else '1 hour' end;
  end $$;
`;

const before = (file: string, place: string, gate: string): Change => ({
  file,
  from: place,
  to: gate + place,
});
const after = (file: string, place: string, gate: string): Change => ({
  file,
  from: place,
  to: place + gate,
});
const GATE = '\nperform model.gate();\n';

const GATED: readonly Change[] = [
  before(FAN_OUT, `  number_now := coalesce(`, GATE),
  before(FAN_OUT, `  is_quiet := pins is null`, GATE),
  before(FAN_OUT, `    -- All that waits of these topics`, GATE),
  after(FAN_OUT, `      group by lock\n    ) as held;\n`, GATE),
  {
    file: FAN_OUT,
    from: `extract(epoch from clock_timestamp()) - (memory ->> 'wholeAt')::float8 > 60`,
    to: 'false',
  },
  {
    file: FAN_OUT,
    from: `extract(epoch from at) - (memory ->> 'movedAt')::float8 < 0.2`,
    to: 'model.tries()',
  },
  {
    file: FAN_OUT,
    from: `'at')::timestamptz > at - interval '1 second'`,
    to: `'at')::timestamptz > at - model.patience()`,
  },
  {
    file: FAN_OUT,
    from: `'at')::timestamptz <= at - interval '1 second'`,
    to: `'at')::timestamptz <= at - model.patience()`,
  },
  before(TURN, `    fanned_out := fanned.events;`, `${GATE}now_at := clock_timestamp();\n`),
  after(
    BEGIN_BACKFILL,
    `  asked record;\nbegin\n`,
    `if coalesce(current_setting('model.begins', true), '') = '' then return false; end if;\n`,
  ),
];

/** And to the relay: handlers join a transaction for as long as the player likes. */
export const PATIENT: readonly Change[] = [
  {
    file: 'lib/bus/relay/shared-commit.ts',
    from: 'const COMMIT_MS = 50;',
    to: 'const COMMIT_MS = Infinity;',
  },
];

/** Gives the statements that add all that to a database, whose bus changes have altered first. */
export async function instruments(changes: readonly Change[]): Promise<string[]> {
  const files = [...new Set([...changes, ...GATED].map(({ file }) => file))].filter((file) =>
    file.endsWith('.sql'),
  );
  const functions = await Promise.all(
    files.map(async (file) => {
      const text = await readFile(join(ROOT, file), 'utf8');
      return withChanges(withChanges(text, file, changes), file, GATED);
    }),
  );
  return [INSTRUMENTS, ...functions];
}
