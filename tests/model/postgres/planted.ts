import type { Change } from '../../chaos/build.ts';
import { MUTATIONS } from '../../chaos/mutations.ts';
import { SURROUNDED_MUTATIONS } from '../../chaos/surroundings/mutations.ts';

/** A mistake as it is built into the functions of a database. */
interface Planted {
  readonly changes: readonly Change[];
  /** Of the sessions of relays. */
  readonly settings: string;
}

const FUNCTIONS = new Set([
  'drizzle/functions/postbud_fan_out_3.sql',
  'drizzle/functions/postbud_turn_4.sql',
]);

/** The mistakes of the order that a function of the database can make. */
export const PLANTED: ReadonlyMap<string, Planted> = new Map([
  ...['no-fence', 'fence-clock-after-locks', 'bound-passes-open-emitters', 'fan-out-without-lock'].map(
    (name): [string, Planted] => [name, { changes: changesOf(name), settings: '' }],
  ),
  [
    'repeatable-read',
    {
      changes: changesOf('turn-in-any-isolation'),
      settings: '&options=-c%20default_transaction_isolation%3Drepeatable%5C%20read',
    },
  ],
]);

/** Where chance has to pause between what a relay takes and what it places, the player has a gate. */
function changesOf(wanted: string): readonly Change[] {
  return [...MUTATIONS, ...SURROUNDED_MUTATIONS]
    .filter(({ name }) => name === wanted)
    .flatMap(({ changes }) => changes)
    .filter(({ file }) => FUNCTIONS.has(file))
    .map((change) => ({
      ...change,
      to: change.to.replace('perform pg_sleep(random() * 0.05);', 'perform model.gate();'),
    }));
}
