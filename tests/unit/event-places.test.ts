import { expect, test } from 'vitest';

import { atPosition, awaitingThenInLanes, positionOf } from '../../lib/console/events/place.ts';
import type { Place } from '../../lib/console/events/place.ts';

const waiting: Place = {
  eventId: 'a',
  position: null,
  cursor: { in: 'awaiting', at: '2026-11-27T05:00:00.000000Z', seq: '1', next: 9 },
};

test('a page is full although events of both lists were fanned out between the two reads', async () => {
  const inLanes = ['new', 'a', 'b', 'c', 'd'].map((id, index) => atPosition(id, 10 - index));
  const places = awaitingThenInLanes(
    async () => ({ places: [waiting], next: 9 }),
    async (after, size) => inLanes.filter(({ position }) => position! < positionOf(after)).slice(0, size),
  );
  expect((await places(null, 3)).map(({ eventId }) => eventId)).toEqual(['a', 'b', 'c']);
});
