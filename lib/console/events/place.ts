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

/** One list behind another. */
export function oneAfterAnother(
  first: Places,
  second: Places,
  isInSecond: (after: Cursor) => boolean,
): Places {
  return async (after, size) => {
    const begun = after !== null && isInSecond(after) ? [] : await first(after, size);
    if (begun.length === size) return begun;
    const seen = new Set(begun.map(({ eventId }) => eventId));
    const rest = await second(after !== null && isInSecond(after) ? after : null, size - begun.length);
    // An event that was fanned out between the two reads is in both.
    return [...begun, ...rest.filter(({ eventId }) => !seen.has(eventId))];
  };
}

export function atPosition(eventId: string, position: number): Place {
  return { eventId, position, cursor: { in: 'positions', position } };
}

/** The position before which a list goes on. */
export function positionOf(after: Cursor | null): number {
  return after?.in === 'positions' ? after.position : Number.MAX_SAFE_INTEGER;
}
