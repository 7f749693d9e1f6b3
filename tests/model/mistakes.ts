import type { Rule } from '../chaos/promises/promises.ts';

interface Mistake {
  readonly name: string;
  /** In words. */
  readonly says: string;
  /** In which it shows. */
  readonly scope: string;
  readonly breaks: readonly Rule[];
}

/** The mistakes of the chaos runs that the model has parts for, and others that chance hardly finds. */
export const MISTAKES = [
  { name: 'no-fence', says: 'placing waits for nobody', scope: 'smallest', breaks: ['order'] },
  {
    name: 'fence-clock-after-locks',
    says: 'the relay reads its clock, and the last number, after the locks',
    scope: 'overlap',
    breaks: ['order'],
  },
  {
    name: 'bound-passes-open-emitters',
    says: 'the next look begins behind the bound: behind what open emitters have recorded',
    scope: 'smallest',
    breaks: ['order'],
  },
  {
    name: 'late-passed',
    says: 'what was committed since the last number was read is passed',
    scope: 'fence',
    breaks: ['order'],
  },
  { name: 'sql-emit-without-lock', says: 'emit takes no lock', scope: 'smallest', breaks: ['order'] },
  {
    name: 'place-without-lock',
    says: "places are drawn without the topic's lock",
    scope: 'fence',
    breaks: ['order', 'consistency'],
  },
  {
    name: 'memory-kept-over-a-crash',
    says: 'a relay believes after a crash what it learned before',
    scope: 'crash',
    breaks: ['order'],
  },
  {
    name: 'settle-without-number',
    says: "a settlement does not check the journal's number",
    scope: 'answers',
    breaks: ['attempts', 'outcome'],
  },
  {
    name: 'lease-longer-by-a-repetition',
    says: 'a relay takes its lease for longer after a settlement that had been made before',
    scope: 'answers',
    breaks: ['overlap', 'lease'],
  },
  {
    name: 'settle-without-token',
    says: 'a settlement does not ask who holds the lane',
    scope: 'leases',
    breaks: ['holder'],
  },
  {
    name: 'lease-shorter-than-limit',
    says: 'a lease ends before the handler’s time does',
    scope: 'leases',
    breaks: ['lease', 'overlap'],
  },
  {
    name: 'effects-outside-of-the-transaction',
    says: 'what a transactional handler does is committed by itself',
    scope: 'transactions',
    breaks: ['effects'],
  },
  {
    name: 'parked-key-passed',
    says: 'the head passes what waits behind an exception of its key',
    scope: 'keys',
    breaks: ['outcome'],
  },
  {
    name: 'claim-beside-an-open-exception',
    says: 'a lane without keys goes on beside an open exception',
    scope: 'leases',
    breaks: ['order'],
  },
  {
    name: 'key-handed-over-behind-its-exception',
    says: 'a claim hands over from the log what waits behind an exception of its key',
    scope: 'keys',
    breaks: ['order', 'overlap'],
  },
  {
    name: 'continued-beside-a-running-one',
    says: 'a lane that goes on hands over a key whose handler runs',
    scope: 'long',
    breaks: ['overlap', 'order'],
  },
  {
    name: 'continued-with-news',
    says: 'a lane goes on before what its relay has delivered is settled',
    scope: 'long',
    breaks: ['survival'],
  },
  {
    name: 'held-left-by-the-dead',
    says: 'what a dead relay had in hand stays so',
    scope: 'backfill-of-keys',
    breaks: ['outcome'],
  },
  {
    name: 'held-left-by-a-backfill',
    says: 'what a dead relay had in hand stays so where a backfill lets its lane go',
    scope: 'backfill-of-keys',
    breaks: ['outcome'],
  },
  {
    name: 'replay-that-nobody-looks-at',
    says: 'a replay does not make its delivery due',
    scope: 'operators',
    breaks: ['outcome'],
  },
  { name: 'successor-escapes-a-halt', says: 'a dead letter halts nothing', scope: 'halts', breaks: ['halt'] },
  {
    name: 'live-before-backfilled',
    says: 'claims go beyond the head while a backfill is under way',
    scope: 'backfill',
    breaks: ['backfill'],
  },
] as const satisfies readonly Mistake[];

export type MistakeName = (typeof MISTAKES)[number]['name'];

/** The mistakes of the chaos runs that the model has no part for, and why. */
export const OUTSIDE: Readonly<Record<string, string>> = {
  'newer-version-handed-over': 'the model has one release',
  'batch-settled-past-its-failure': 'the model has no batches',
  'innocent-burnt-by-shared-commit': 'the model has a transaction for each delivery',
  'silent-subscriber-is-handed-more': 'the model has no outages',
  'replay-reaches-refusing': 'the model has no handlers that refuse replays',
  'refused-replay-handed-over': 'the model has no handlers that refuse replays',
  'cancelled-timer-released': 'the model has no timers',
  'rate-counted-by-each-relay': 'the model has no limits of subscribers',
};
