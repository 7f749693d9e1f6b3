import { catalog } from '../lib/bus/catalog/catalog.ts';
import { emit } from '../lib/bus/outbox/emit.ts';
import { connect } from '../lib/platform/db/connect.ts';
import { driverOf, run } from '../lib/platform/db/statement.ts';
import { createDatabase, startPostgres } from '../tests/support/postgres.ts';
import { goal, measured, quantile, spreadOf, timed } from './figures.ts';
import type { Section } from './figures.ts';

const ROUNDS = 15;
const LINES = 8000;
const TOPIC = 'ledger.entry.posted';
const MOST_TIMES = 5;

/** Measures emitting a large payload by SQL, which checks it in the database, beside `emit`, which checks it with zod. */
export async function benchSqlEmit(): Promise<Section> {
  const server = await startPostgres();
  const { db, close } = await connect(await createDatabase(server.url));
  try {
    const { example } = catalog[TOPIC];
    const payload = {
      ...example,
      lines: Array.from({ length: LINES }, (_, index) => example.lines[index % example.lines.length]!),
    };
    const text = JSON.stringify(payload);
    const byEmit: number[] = [];
    const bySql: number[] = [];
    // In turn, so that both meet the same machine.
    for (let round = 0; round < ROUNDS; round += 1) {
      byEmit.push(await timed(() => db.transaction((tx) => emit(tx, TOPIC, payload))));
      bySql.push(
        await timed(() =>
          run(driverOf(db), { text: 'select postbud_emit($1, $2::text::jsonb)', values: [TOPIC, text] }),
        ),
      );
    }
    const times = quantile(bySql, 0.5) / quantile(byEmit, 0.5);
    return {
      title: 'Emitting a large payload by SQL',
      rows: [
        measured(`emit, ${LINES} lines`, spreadOf(byEmit), ' ms'),
        {
          ...measured(`postbud_emit, ${LINES} lines`, spreadOf(bySql), ' ms'),
          goal: goal(`at most ${MOST_TIMES} times as long as emit`, times <= MOST_TIMES),
        },
      ],
      notes: [
        `One event of ${Math.round(text.length / 1000)} kB, recorded and committed on one connection; medians [and ranges] of ${ROUNDS} rounds, in turn.`,
      ],
    };
  } finally {
    await close();
    await server.stop();
  }
}
