import type { Cursor } from './query.ts';

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

/** One list behind another. @param second leaves out what a page that ended in the first has shown. */
export function oneAfterAnother(
  first: Places,
  second: Places,
  isInSecond: (after: Cursor) => boolean,
): Places {
  return async (after, size) => {
    const begun = after !== null && isInSecond(after) ? [] : await first(after, size);
    if (begun.length === size) return begun;
    const seen = new Set(begun.map(({ eventId }) => eventId));
    // An event that was fanned out between the two reads is in both.
    const rest = (await second(after, size)).filter(({ eventId }) => !seen.has(eventId));
    return [...begun, ...rest].slice(0, size);
  };
}

export function atPosition(eventId: string, position: number): Place {
  return { eventId, position, cursor: { in: 'positions', position } };
}

/** The position before which a list goes on. */
export function positionOf(after: Cursor | null): number {
  return after?.in === 'positions' ? after.position : Number.MAX_SAFE_INTEGER;
}
