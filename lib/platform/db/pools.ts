import { MINUTE, SECOND } from '../time.ts';

// A function instance serves requests side by side but lives briefly: few connections, and none idle for long, since the
// platform keeps an instance awake for those. A server keeps them: one that is opened for a rush is slow at first.
export const KEPT_IN_FUNCTIONS_MS = 5 * SECOND;
export const KEPT_IN_SERVERS_MS = 5 * MINUTE;

const MAX_CONNECTIONS = 10;

/** Connections for nothing but turns, whose plans take a new one 15 milliseconds. More than a relay has loops. */
const MAX_TURNS = 4;

/** The options of a pool, which `pg` and Neon's driver share. */
interface PoolOptions {
  readonly max: number;
  readonly idleTimeoutMillis: number;
  readonly connectionTimeoutMillis: number;
  readonly keepAlive: boolean;
  readonly keepAliveInitialDelayMillis: number;
}

/** One pool for turns, the other for all else. */
export type Pools<Pool> = Readonly<Record<'any' | 'turns', Pool>>;

/** @param idleMs for how long a connection is kept that nobody needs. */
export function openPools<Pool>(idleMs: number, open: (options: PoolOptions) => Pool): Pools<Pool> {
  const withAtMost = (max: number) =>
    open({
      max,
      idleTimeoutMillis: idleMs,
      connectionTimeoutMillis: 5 * SECOND,
      // They are probed, so that a connection whose other end is gone frees its place.
      keepAlive: true,
      keepAliveInitialDelayMillis: 10 * SECOND,
    });
  return { any: withAtMost(MAX_CONNECTIONS), turns: withAtMost(MAX_TURNS) };
}
