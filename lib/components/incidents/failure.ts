/** What is wrong in one subscription by one error, or in all of a subscriber that does not answer, at one moment. */
export interface Failure {
  /** Empty for an outage, and for chat and budgets. */
  readonly topic: string;
  /** Empty for the bus itself, and for chat and budgets. */
  readonly subscriber: string;
  readonly kind: string;
  /** The error group; empty for an outage, unreadable payloads, the bus itself, chat and budgets. */
  readonly group: string;
  /** The last error, its personal data masked. */
  readonly message: string;
  /** Lanes that wait for the next attempt of their first delivery, that a dead letter halts, or of a subscriber in an outage. */
  readonly lanes: number;
  /** The part of them that a dead letter halts. */
  readonly halted: number;
  /** Deliveries in them. */
  readonly waiting: number;
  /** Dead letters; of the bus itself, the rows that it set aside. */
  readonly dead: number;
  /** The first failure; ISO 8601. */
  readonly since: string;
  /** That of the lanes that wait now; null where none does. */
  readonly blockedSince?: string | null;
  /** Whether no lane waits because of it, but the first delivery of one has failed so a moment ago. */
  readonly lingers?: boolean;
}
