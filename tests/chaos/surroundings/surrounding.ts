import type { Build } from '../build.ts';
import type { Arena } from '../campaign.ts';

/** Where it is played: a server, and the bus as it is or with a mistake. */
export interface Scene {
  readonly arena: Arena;
  readonly build: Build;
}

/** Something hostile around the bus, which real processes meet. */
export interface Surrounding {
  readonly name: string;
  /** The number of the requirement. */
  readonly point: number;
  /** Whether it is quick enough for every test run. */
  readonly inCi: boolean;
  /** Says why it can't be played on this machine. */
  readonly lacks?: () => string | null;
  /** Brings it about, lets it end, and judges. */
  readonly play: (scene: Scene) => Promise<Outcome>;
}

export interface Outcome {
  /** In one line. */
  readonly did: string;
  /** What was promised and did not hold; nothing when all did. */
  readonly broken: readonly string[];
}
