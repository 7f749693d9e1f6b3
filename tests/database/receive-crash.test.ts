import { describe, expect, inject, test } from 'vitest';

import { MISTAKES } from '../chaos/elsewhere/orders.ts';
import { play } from '../chaos/elsewhere/play.ts';
import type { Kills } from '../chaos/elsewhere/play.ts';

/** Each relay and each receiver a few times. `npm run chaos:elsewhere` does it for a minute. */
const isEnough = ({ relays, receivers }: Kills) => relays >= 6 && receivers >= 4;

/** A mistake shows soon, but it takes a kill, or a failure, at the right moment. */
const isEnoughForAMistake = ({ relays, receivers }: Kills) => relays >= 3 && receivers >= 2;
const TRIES = 20;

describe('relays and receivers that are killed again and again', () => {
  test('each event has its effect once and in order, one by one and in batches', async () => {
    const played = await play({ serverUrl: inject('postgresUrl'), seed: 1, isOver: isEnough });
    expect(played.faults).toEqual([]);
    expect(played.effects).toBe(2 * played.events);
    // It has met what it is about.
    expect(played.failedAttempts).toBeGreaterThan(0);
  });

  test.for(MISTAKES)('a receiver that %s is found', { timeout: 400_000 }, async (mistake) => {
    const faults: string[] = [];
    for (let seed = 1; seed <= TRIES && faults.length === 0; seed += 1) {
      const isOver = isEnoughForAMistake;
      const played = await play({ serverUrl: inject('postgresUrl'), seed, isOver, mistake });
      faults.push(...played.faults);
    }
    expect(faults).not.toEqual([]);
  });
});
