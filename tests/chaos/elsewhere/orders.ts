/** What the processes of a play are told, as JSON in their first argument. */
export interface RelayOrders {
  readonly busUrl: string;
  /** Of the receivers. */
  readonly port: number;
  readonly clock: PlayClock;
}

export interface ReceiverOrders {
  readonly url: string;
  readonly port: number;
  readonly mistake: Mistake | null;
}

/**
 * Mistakes of a receiver that the play must find: it remembers nothing; it remembers an event in a transaction before that
 * of the handler; it answers before it has done anything.
 */
export const MISTAKES = ['forgets', 'remembers-too-early', 'answers-too-early'] as const;
export type Mistake = (typeof MISTAKES)[number];

/** The components elsewhere, and whether each gets its events in batches. */
export const COMPONENTS = [
  { name: 'ledger', isBatch: false },
  { name: 'accounting', isBatch: true },
] as const;

export const SECRET = `whsec_${Buffer.alloc(32, 9).toString('base64')}`;

/** A clock that runs faster, so that leases run out and retries fall due within a play. */
export interface PlayClock {
  /** Epoch milliseconds at which it and the machine's show the same. */
  readonly base: number;
  readonly speed: number;
}

export function timeOf({ base, speed }: PlayClock): number {
  return base + (Date.now() - base) * speed;
}
