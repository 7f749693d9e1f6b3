/** An operator's word. */
export interface Word {
  /** The operator: the token's subject. */
  readonly by: string;
  readonly reason: string;
}

/** How long a call may work, and by which clock. */
export interface Timing {
  /** When to begin no further chunk, in milliseconds since the epoch. What is left then takes another call. */
  readonly until: number;
  /** Overrides the database's clock in tests. */
  readonly now?: Date;
}
