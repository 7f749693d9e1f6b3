import { beforeEach, describe, expect, it } from 'vitest';

import { ClockJumps } from '../../lib/platform/db/clock-jumps.ts';
import { HOUR, SECOND } from '../../lib/platform/time.ts';

let jumps: ClockJumps;
beforeEach(() => {
  jumps = new ClockJumps();
});

/** Reads a clock this much ahead at an instant of this process, whose answer takes so long. */
function read(at: number, aheadMs = 0, tookMs = 0): void {
  jumps.note({ clockMs: at + aheadMs, sentAt: at, receivedAt: at + tookMs });
}

describe('the database’s clock', () => {
  it('has jumped over instants that it came to sooner than this process', () => {
    read(0);
    read(1 * SECOND, 2 * HOUR);
    expect(jumps.hasSkipped(1 * SECOND)).toBe(false);
    expect(jumps.hasSkipped(30 * SECOND)).toBe(true);
    expect(jumps.hasSkipped(1 * SECOND + 2 * HOUR)).toBe(true);
    expect(jumps.hasSkipped(1 * SECOND + 2 * HOUR + 1)).toBe(false);
  });

  it('has jumped over them for every later relay of this process', () => {
    read(0);
    read(1 * SECOND, 2 * HOUR);
    read(2 * SECOND, 2 * HOUR);
    expect(jumps.hasSkipped(30 * SECOND)).toBe(true);
  });

  it('comes to them again when it goes back', () => {
    read(0);
    read(1 * SECOND, 2 * HOUR);
    read(2 * SECOND);
    expect(jumps.hasSkipped(30 * SECOND)).toBe(false);
  });

  it('has not jumped while nobody read it, or while answers were long on their way', () => {
    read(0, 0, 15 * SECOND);
    read(2 * HOUR);
    read(2 * HOUR, 15 * SECOND, 15 * SECOND);
    expect(jumps.hasSkipped(1 * HOUR)).toBe(false);
    expect(jumps.hasSkipped(2 * HOUR + 10 * SECOND)).toBe(false);
  });
});
