import { buildBus } from '../chaos/build.ts';
import type { Build, Change } from '../chaos/build.ts';
import { NEXT_CATALOG } from '../chaos/releases.ts';
import type { Release } from '../chaos/releases.ts';
import { START, payloadOf } from './bus.ts';

/** A release of the bus, on a database that it shares with another. */
export interface RunningRelease {
  readonly name: Release;
  readonly bus: Build['bus'];
  readonly db: Parameters<Build['bus']['readOverview']>[0];
  /** Emits one event, with the number as its amount or its id. */
  readonly emit: (topic: string, number: number) => Promise<string>;
  /**
   * Relays with the clock at `START`, or so much later.
   *
   * @param handlers by subscriber; each is attached to all topics that it is listed for.
   */
  readonly drain: (
    handlers: Readonly<Record<string, Handler>>,
    options?: { readonly isTransactional?: boolean; readonly laterMs?: number },
  ) => ReturnType<Build['bus']['relay']>;
  readonly close: () => Promise<void>;
}

type Handler = (event: { readonly id: string; readonly topic: string; readonly version: number }) => unknown;

/** Opens the tree as it stands, or the tree with the catalog of the next release and other changes, on a database. */
export async function openRelease(
  name: Release,
  url: string,
  changes: readonly Change[] = [],
): Promise<RunningRelease> {
  const { bus, remove } = await buildBus(name === 'next' ? [...NEXT_CATALOG, ...changes] : []);
  const { db, close } = await bus.connect(url);
  return {
    name,
    bus,
    db,
    async emit(topic, number) {
      const payload =
        topic === 'payment.settled'
          ? { intentId: `pi_${number}` }
          : payloadOf(topic as 'payment.failed', { providerEventId: `evt_${number}` });
      return (await db.transaction((tx) => bus.emit(tx, topic as 'payment.failed', payload as never))).id;
    },
    drain(handlers, { isTransactional = false, laterMs = 0 } = {}) {
      const attached = Object.entries(handlers).map(([subscriber, handle]) => {
        const listed = bus
          .topics()
          .filter(([, row]) => row.subscribers.some((known) => known === subscriber));
        const toAll = Object.fromEntries(listed.map(([topic]) => [topic, handle]));
        return bus.attach(subscriber, toAll, { transactional: isTransactional, sharesCommits: false });
      });
      return bus.relay({ db, subscribers: attached, until: Date.now() + 45_000, now: START + laterMs });
    },
    async close() {
      await close();
      await remove();
    },
  };
}
