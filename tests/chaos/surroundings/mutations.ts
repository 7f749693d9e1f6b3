import type { Change } from '../build.ts';

/** A mistake that is built into the bus, and that a surrounding must find. */
export interface SurroundedMutation {
  readonly name: string;
  /** The surrounding. */
  readonly foundBy: string;
  /** What that finds, at least; anything else would show another mistake. */
  readonly finds: RegExp;
  readonly changes: readonly Change[];
}

const TURN = 'drizzle/functions/postbud_turn_5.sql';

export const SURROUNDED_MUTATIONS: readonly SurroundedMutation[] = [
  {
    // As it was: each transaction in what the database, the role or the URL sets.
    name: 'turn-in-any-isolation',
    foundBy: 'repeatable-read-by-the-database',
    finds: /is older than|serialize/,
    changes: [
      {
        file: TURN,
        from: `if current_setting('transaction_isolation') <> 'read committed' then`,
        to: 'if false then',
      },
    ],
  },
  {
    name: 'transactions-as-the-url-says',
    foundBy: 'repeatable-read-by-the-url',
    finds: /there is no delivery/,
    changes: [
      {
        file: 'lib/platform/db/connect.ts',
        from: "const READ_COMMITTED = { isolationLevel: 'read committed' } as const;",
        to: 'const READ_COMMITTED = {} as const;',
      },
    ],
  },
  {
    name: 'outcomes-thrown-away-after-three-tries',
    foundBy: 'away-for-2.6-seconds',
    finds: /lease_expired|was silent/,
    changes: [
      {
        file: 'lib/bus/relay/claim-loop.ts',
        from: 'this.#failures += 1;',
        to: 'this.#failures += 1; if (this.#failures > 3) throw error;',
      },
    ],
  },
  {
    name: 'turn-without-a-limit',
    foundBy: 'half-open-before-a-turn',
    finds: /did nothing for/,
    changes: [
      {
        file: 'lib/platform/db/statement.ts',
        from: 'export const TURN_LIMIT_MS = 15 * SECOND;',
        to: 'export const TURN_LIMIT_MS = Infinity;',
      },
    ],
  },
  {
    name: 'leases-ended-by-a-jump-are-charged',
    foundBy: 'clock-two-hours-ahead-for-five-seconds',
    finds: /lease_expired/,
    changes: [
      {
        file: 'lib/platform/db/clock-jumps.ts',
        from: 'return this.#skipped !== null && this.#skipped.fromMs < atMs && atMs <= this.#skipped.toMs;',
        to: 'return atMs < 0;',
      },
    ],
  },
  {
    name: 'names-kept-behind-a-pooler',
    foundBy: 'pooler-without-named-statements',
    finds: /still wait/,
    changes: [
      {
        file: 'lib/platform/db/prepared-names.ts',
        from: 'if (!saysThatNamesAreLost(error)) return;',
        to: 'if (error !== null) return;',
      },
    ],
  },
  {
    name: 'delivery-without-event-stops-its-lane',
    foundBy: 'marker-without-an-event',
    finds: /wait behind it/,
    changes: [
      {
        file: 'lib/bus/deliveries/claim.ts',
        from: 'const lacking = all.findIndex(({ event }) => event === null);',
        to: 'const lacking = all.length - 1;',
      },
    ],
  },
  {
    name: 'strange-marker-stops-its-topic',
    foundBy: 'marker-that-no-relay-places',
    finds: /wait behind it/,
    changes: [
      {
        file: 'lib/bus/deliveries/turn.ts',
        from: 'if (!isOfRow(error)) throw error;',
        to: 'if (error !== null) throw error;',
      },
    ],
  },
];
