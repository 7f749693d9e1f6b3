import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import { Deadlines } from '../../lib/platform/db/deadlines.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

it('each deadline that is not withdrawn passes at its time, whatever was set before or after it', () => {
  const deadlines = new Deadlines();
  const passed: string[] = [];
  const set = (name: string, ms: number) => deadlines.set(ms, () => passed.push(name));
  const withdrawn = set('withdrawn', 100);
  set('late', 500);
  vi.advanceTimersByTime(50);
  set('early', 20);
  deadlines.withdraw(withdrawn);
  vi.advanceTimersByTime(19);
  expect(passed).toEqual([]);
  vi.advanceTimersByTime(1);
  expect(passed).toEqual(['early']);
  vi.advanceTimersByTime(429);
  expect(passed).toEqual(['early']);
  vi.advanceTimersByTime(1);
  expect(passed).toEqual(['early', 'late']);
});

it('a thousand deadlines that are withdrawn in time cost one timer', () => {
  const deadlines = new Deadlines();
  const timers = vi.spyOn(globalThis, 'setTimeout');
  for (let times = 0; times < 1000; times += 1) deadlines.withdraw(deadlines.set(15_000, () => undefined));
  expect(timers).toHaveBeenCalledOnce();
  timers.mockRestore();
});
