import { expect, test } from 'vitest';

import { atPosition, oneAfterAnother } from '../../lib/console/events/place.ts';
import type { Place } from '../../lib/console/events/place.ts';

const waiting: Place = {
  eventId: 'a',
  position: null,
  cursor: { in: 'awaiting', at: '2026-11-27T05:00:00.000000Z', seq: '1' },
};

test('a page is full although events of both lists were fanned out between the two reads', async () => {
  const fannedOut = ['a', 'b', 'c', 'd'].map((id, index) => atPosition(id, 9 - index));
  const places = oneAfterAnother(
    async () => [waiting],
    async (_, size) => fannedOut.slice(0, size),
    ({ in: list }) => list === 'positions',
  );
  expect((await places(null, 3)).map(({ eventId }) => eventId)).toEqual(['a', 'b', 'c']);
});
