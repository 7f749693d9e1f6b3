import type { Cursor, Waited } from './query.ts';

/** An event that a list or a search came by, before its filters are applied. */
export interface Place {
  readonly eventId: string;
  /** Null before fan-out, and where nobody asked for it. */
  readonly position: number | null;
  /** Where the list goes on behind it. */
  readonly cursor: Cursor;
  /** By what a search came by it, where its own row does not tell. */
  readonly by?: string;
}

/** Gives places, newest first. @returns `size` of them, or fewer where there are no more. */
export type Places = (after: Cursor | null, size: number) => Promise<readonly Place[]>;

/** The newest events that wait for fan-out, and the next position at that moment. */
export interface Waiting {
  readonly places: readonly Place[];
  readonly next: number;
}

/**
 * The events that wait for fan-out, and then those in lanes.
 *
 * A page neither leaves out nor repeats what has been fanned out since an earlier one, in whatever order: topics have
 * none among them, so what waits may be older than what is in lanes.
 */
export function awaitingThenInLanes(
  awaiting: (after: Cursor | null, size: number) => Promise<Waiting>,
  inLanes: Places,
): Places {
  return async (after, size) => {
    if (after?.in === 'positions') return await inLanes(after, size);
    const { places: begun, next } = await awaiting(after, size);
    if (begun.length === size) return begun;
    // What is fanned out between the two reads has a later position.
    const cursor: Cursor = {
      in: 'positions',
      position: next,
      ...(after?.in === 'awaiting' && { waited: { at: after.at, seq: after.seq, next: after.next } }),
    };
    return [...begun, ...(await inLanes(cursor, size - begun.length))];
  };
}

export function atPosition(eventId: string, position: number, waited?: Waited): Place {
  const mayBeBehind = waited !== undefined && position > (waited.next ?? 0);
  return { eventId, position, cursor: { in: 'positions', position, ...(mayBeBehind && { waited }) } };
}

/** The position before which a list goes on. */
export function positionOf(after: Cursor | null): number {
  return after?.in === 'positions' ? after.position : Number.MAX_SAFE_INTEGER;
}
