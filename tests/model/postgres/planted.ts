import type { Change } from '../../chaos/build.ts';
import { MUTATIONS } from '../../chaos/mutations.ts';
import { SURROUNDED_MUTATIONS } from '../../chaos/surroundings/mutations.ts';

const FAN_OUT = 'drizzle/functions/postbud_fan_out_3.sql';
const TURN = 'drizzle/functions/postbud_turn_4.sql';
const RELEASE_TIMERS = 'drizzle/functions/postbud_release_timers_1.sql';

/** A mistake as it is built into the bus. */
export interface Planted {
  readonly changes: readonly Change[];
  /** Of the sessions of relays. */
  readonly settings: string;
}

/** No mistake. */
export const SOUND: Planted = { changes: [], settings: '' };

/** The mistakes of the chaos runs whose schedules can be played. */
const OF_CHAOS = [
  'no-fence',
  'fence-clock-after-locks',
  'bound-passes-open-emitters',
  'fan-out-without-lock',
  'settle-without-token',
  'successor-escapes-a-halt',
  'live-before-backfilled',
  'lane-of-key-deleted-too-early',
  'key-handed-over-by-both-its-lanes',
  'failure-in-handler-transaction',
  'innocent-burnt-by-shared-commit',
  'watermark-left-on-replay',
  'replay-reaches-refusing',
  'refused-replay-handed-over',
];

/** The mistakes whose schedules are played. */
export const PLANTED: ReadonlyMap<string, Planted> = new Map([
  ...OF_CHAOS.map((name): [string, Planted] => [name, { changes: changesOf(name), settings: '' }]),
  [
    'repeatable-read',
    {
      changes: changesOf('turn-in-any-isolation'),
      settings: '&options=-c%20default_transaction_isolation%3Drepeatable%5C%20read',
    },
  ],
  planted(
    'late-lifts-the-bound',
    FAN_OUT,
    `(began ->> lock)::timestamptz, '-infinity') else at end`,
    `(began ->> lock)::timestamptz) else at end`,
  ),
  planted(
    'sql-emit-without-lock',
    'lib/bus/outbox/record.ts',
    'select pg_advisory_xact_lock_shared(${EMITTER_LOCKS}, hashtext(${at(2)}::text)),',
    'select',
  ),
  planted(
    'batch-settled-past-its-failure',
    'lib/bus/relay/batch.ts',
    '    attempts[0]!.fail(error);',
    '    attempts[0]!.fail(error);\n    for (const attempt of attempts.slice(1)) attempt.deliver(0);',
  ),
  planted(
    'positions-not-reserved',
    FAN_OUT,
    `> (memory -> 'reserved')::bigint`,
    `> (memory -> 'reserved')::bigint and false`,
  ),
  // The statements of a stable function see what that of its caller does.
  planted(
    'old-snapshot-after-a-wait',
    FAN_OUT,
    ') language plpgsql as $$',
    ') language plpgsql stable as $$',
  ),
  planted(
    'prepared-by-its-virtual-id',
    FAN_OUT,
    `or transaction like '-1/%' and exists (`,
    `or transaction like '-1/%' and false and exists (`,
  ),
  planted(
    'memory-kept-over-a-crash',
    TURN,
    `if memory ->> 'server' is distinct from server then`,
    `if memory is null then`,
  ),
  planted(
    'timer-passes-a-locked-one',
    RELEASE_TIMERS,
    `bool_and(id = any (taken)) over (partition by topic order by due_at, seq) as is_free`,
    `id = any (taken) as is_free`,
  ),
]);

/** Those whose schedules can't be played, and why. */
export const UNPLAYED: Readonly<Record<string, string>> = {
  'lease-shorter-than-limit': 'the player says when a lease ends',
  'fan-out-by-own-catalog': 'its relays are of two releases',
  'newer-version-handed-over': 'its relays are of two releases',
};

function planted(name: string, file: string, from: string, to: string): [string, Planted] {
  return [name, { changes: [{ file, from, to }], settings: '' }];
}

/** Where chance has to pause between what a relay takes and what it places, the player has a gate. */
function changesOf(wanted: string): readonly Change[] {
  return [...MUTATIONS, ...SURROUNDED_MUTATIONS]
    .filter(({ name }) => name === wanted)
    .flatMap(({ changes }) => changes)
    .map((change) => ({
      ...change,
      to: change.to.replace('perform pg_sleep(random() * 0.05);', 'perform model.gate();'),
    }));
}
