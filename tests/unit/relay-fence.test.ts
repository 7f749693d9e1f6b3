import { describe, expect, it } from 'vitest';

import { QuietFence } from '../../lib/deliveries/fan-out.ts';

const survey = (at: string, ...emitters: [lock: number, transaction: string][]) => ({
  at,
  emitters: emitters.map(([lock, transaction]) => ({ lock, transaction })),
});

describe('the quiet fence', () => {
  it('holds back no topic that nobody is emitting to', () => {
    expect(new QuietFence().pass(survey('10:00'))).toEqual([]);
  });

  it('holds back a topic whose emitters it sees for the first time', () => {
    expect(new QuietFence().pass(survey('10:00', [1, '3/7']))).toEqual([{ lock: 1, until: null }]);
  });

  it('holds a topic back while one of the transactions that it saw first is open', () => {
    const fence = new QuietFence();
    fence.pass(survey('10:00', [1, '3/7'], [1, '4/2']));
    expect(fence.pass(survey('10:01', [1, '4/2'], [1, '5/1']))).toEqual([{ lock: 1, until: null }]);
  });

  it('opens a topic that is never quiet up to the moment whose transactions have all ended', () => {
    const fence = new QuietFence();
    fence.pass(survey('10:00', [1, '3/7']));
    fence.pass(survey('10:01', [1, '3/7'], [1, '4/2']));
    expect(fence.pass(survey('10:02', [1, '4/2']))).toEqual([{ lock: 1, until: '10:00' }]);
    expect(fence.pass(survey('10:03', [1, '5/1']))).toEqual([{ lock: 1, until: '10:02' }]);
  });

  it('tells one transaction from the next on the same connection', () => {
    const fence = new QuietFence();
    fence.pass(survey('10:00', [1, '3/7']));
    expect(fence.pass(survey('10:01', [1, '3/8']))).toEqual([{ lock: 1, until: '10:00' }]);
  });

  it('forgets a topic that has become quiet', () => {
    const fence = new QuietFence();
    fence.pass(survey('10:00', [1, '3/7']));
    expect(fence.pass(survey('10:01'))).toEqual([]);
    expect(fence.pass(survey('10:02', [1, '3/8']))).toEqual([{ lock: 1, until: null }]);
  });

  it('lets each topic wait for its own emitters only', () => {
    const fence = new QuietFence();
    fence.pass(survey('10:00', [1, '3/7'], [2, '4/2']));
    expect(fence.pass(survey('10:01', [1, '5/1'], [2, '4/2']))).toEqual([
      { lock: 1, until: '10:00' },
      { lock: 2, until: null },
    ]);
  });
});
