import { setImmediate as turn } from 'node:timers/promises';

import { vi } from 'vitest';

import { migrate } from '../../lib/bus/migrations/migrate.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import type { Connection } from '../../lib/platform/db/connect.ts';
import { forgetEvents } from './scenes.ts';

/** A bus whose clock moves only when nothing is left to do: work takes no time. */
export interface SimulatedTime extends Connection {
  /** Empties the database and lets time begin: to be ended by `vi.useRealTimers()`. */
  readonly begin: () => Promise<void>;
  /** Milliseconds since the beginning. */
  readonly now: () => number;
  /** Lets time go on until this has come to an end. */
  readonly through: <Result>(happening: Promise<Result>) => Promise<Result>;
  /** When relays looked for work. */
  readonly ticks: number[];
}

/** Longer than the longest chain of callbacks without a timer; the database in this process answers within it. */
const TURNS = 20;

/** An embedded database, which has the time from this process, and a clock that `through` moves from timer to timer. */
export async function simulateTime(): Promise<SimulatedTime> {
  const { db, close } = await connect('memory://');
  await migrate(db);
  const client = db.$client as { query(text: string, values: unknown[]): Promise<unknown> };
  let beganAt = 0;
  const now = () => Date.now() - beganAt;
  const ticks: number[] = [];
  const query = client.query.bind(client);
  client.query = async (text, values) => {
    // A turn that takes no lanes only settles.
    if (text.includes('postbud_turn') && (JSON.parse(values[9] as string) as { lanes: number }).lanes !== 0)
      ticks.push(now());
    return await query(text, values);
  };
  return {
    db,
    close,
    now,
    ticks,
    async begin() {
      await forgetEvents(db, 'throughput_minutes', 'error_groups');
      vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout', 'performance'], now: Date.now() });
      beganAt = Date.now();
      ticks.length = 0;
    },
    async through(happening) {
      let isOver = false;
      const over = () => (isOver = true);
      happening.then(over, over);
      for (;;) {
        for (let turns = 0; turns < TURNS && !isOver; turns += 1) await turn();
        if (isOver) return await happening;
        if (vi.getTimerCount() === 0) throw new Error('nothing is going to happen any more');
        await vi.advanceTimersToNextTimerAsync();
      }
    },
  };
}
