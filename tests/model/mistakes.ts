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
  { name: 'no-fence', says: 'fan-out waits for nobody', scope: 'smallest', breaks: ['order'] },
  {
    name: 'fence-clock-after-locks',
    says: 'the relay reads its clock, and the last number, after the locks',
    scope: 'overlap',
    breaks: ['order'],
  },
  {
    name: 'bound-passes-open-emitters',
    says: 'the next fan-out reads from behind the markers of open emitters',
    scope: 'smallest',
    breaks: ['order', 'outcome'],
  },
  {
    name: 'late-lifts-the-bound',
    says: 'what is committed while a turn looks lifts the bound of an emitter that is open for long',
    scope: 'overlap',
    breaks: ['order'],
  },
  { name: 'sql-emit-without-lock', says: 'emit takes no lock', scope: 'smallest', breaks: ['order'] },
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
    name: 'failure-in-handler-transaction',
    says: 'a failure is settled in the transaction that failed',
    scope: 'transactions',
    breaks: ['effects'],
  },
  {
    name: 'fan-out-without-lock',
    says: 'two relays fan out at once, each what the other has not',
    scope: 'two-relays',
    breaks: ['order'],
  },
  {
    name: 'watermark-left-on-replay',
    says: 'a replay leaves the head where it is',
    scope: 'operators',
    breaks: ['outcome'],
  },
  {
    name: 'fan-out-by-own-catalog',
    says: 'a relay fans out by the catalog of its own release',
    scope: 'releases',
    breaks: ['outcome'],
  },
  {
    name: 'newer-version-handed-over',
    says: 'a relay hands over what its release cannot read',
    scope: 'releases',
    breaks: ['version'],
  },
  {
    name: 'batch-settled-past-its-failure',
    says: 'what is behind the event that a batch did not take is settled',
    scope: 'batches',
    breaks: ['outcome', 'order'],
  },
  {
    name: 'innocent-burnt-by-shared-commit',
    says: 'the first of a shared transaction is charged for all',
    scope: 'transactions',
    breaks: ['attempts'],
  },
  {
    name: 'lane-of-key-deleted-too-early',
    says: 'the lane of a key goes although the key has more',
    scope: 'keys-one-by-one',
    breaks: ['order', 'outcome'],
  },
  {
    name: 'key-handed-over-by-both-its-lanes',
    says: 'a shared lane hands over keys in trouble',
    scope: 'keys-one-by-one',
    breaks: ['order', 'overlap', 'holder'],
  },
  { name: 'successor-escapes-a-halt', says: 'a dead letter halts nothing', scope: 'halts', breaks: ['halt'] },
  {
    name: 'live-before-backfilled',
    says: 'claims do not stop at the front of a backfill',
    scope: 'backfill',
    breaks: ['backfill'],
  },
  {
    name: 'replay-reaches-refusing',
    says: 'a replay takes what its handler refuses',
    scope: 'refusals',
    breaks: ['refusal'],
  },
  {
    name: 'refused-replay-handed-over',
    says: 'a handler that refuses replays is handed one',
    scope: 'refusals',
    breaks: ['refusal'],
  },
  { name: 'repeatable-read', says: 'a turn has one snapshot', scope: 'two-relays', breaks: ['order'] },
  {
    name: 'old-snapshot-after-a-wait',
    says: 'a turn that waited for the fan-out lock reads as of before',
    scope: 'two-relays',
    breaks: ['order'],
  },
  {
    name: 'prepared-by-its-virtual-id',
    says: 'after a restart a prepared transaction is taken for another',
    scope: 'restart',
    breaks: ['order'],
  },
  {
    name: 'positions-not-reserved',
    says: 'a claim that is lost with the disk takes its positions along',
    scope: 'crash',
    breaks: ['identity'],
  },
  {
    name: 'memory-kept-over-a-crash',
    says: 'a relay believes after a crash what it learned before',
    scope: 'crash',
    breaks: ['order', 'outcome'],
  },
  {
    name: 'timer-passes-a-locked-one',
    says: 'a release passes over a locked timer of the same topic',
    scope: 'timers',
    breaks: ['order'],
  },
] as const satisfies readonly Mistake[];

export type MistakeName = (typeof MISTAKES)[number]['name'];

/** The mistakes of the chaos runs that the model has no part for, and why. */
export const OUTSIDE: Readonly<Record<string, string>> = {
  'rename-loses-waiting': 'a rename is two lanes and five steps of its own',
  'cancelled-timer-released': 'a release locks and deletes timers in one step of the model',
  'rate-counted-by-each-relay': 'the model has no limits of subscribers',
  'lane-overtaken-at-its-limit': 'the model has no limits of subscribers',
  'outage-burns-attempts-of-others':
    'an outage is counted over three lanes or attempts; the model has no presence',
};
