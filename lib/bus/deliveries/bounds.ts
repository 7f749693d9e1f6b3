import type { Database } from '../../platform/db/connect.ts';
import { onceFor } from '../../platform/once-for.ts';
import { MINUTE } from '../../platform/time.ts';

/** How often a process looks for markers behind the bounds: what somebody wrote by hand may be there. */
const WHOLE_EVERY_MS = 1 * MINUTE;

export interface Known {
  /** Of which the bounds are true: another one since its start, or its recovery after a crash. */
  readonly server: string;
  readonly bounds: Readonly<Record<string, string>>;
}

/** Up to when all events of each topic have their places, as this process knows it. Instants as the database writes them. */
class Bounds {
  server: string | null = null;
  readonly #bounds = new Map<string, string>();
  #wholeAt = -Infinity;

  isWholeDue(): boolean {
    return performance.now() - this.#wholeAt >= WHOLE_EVERY_MS;
  }

  /** @param topics null for all. */
  textFor(topics: readonly string[] | null): string {
    const known =
      topics === null ? [...this.#bounds] : topics.map((topic) => [topic, this.#bounds.get(topic)]);
    return JSON.stringify(Object.fromEntries(known));
  }

  note({ server, bounds }: Known, isWhole: boolean): void {
    if (server !== this.server) this.#bounds.clear();
    this.server = server;
    if (isWhole) this.#wholeAt = performance.now();
    for (const [topic, bound] of Object.entries(bounds)) this.#bounds.set(topic, bound);
  }
}

export const boundsOf = onceFor<Database, Bounds>(() => new Bounds());
