import { describe, expect, test } from 'vitest';
import * as z from 'zod';

import { catalogVersions } from '../../dev/descriptions.ts';
import { topic } from '../../lib/bus/catalog/topic.ts';
import type { Topic } from '../../lib/bus/catalog/topic.ts';
import { catalogVersionOf, changesBetween } from '../../lib/elsewhere/catalog-description/catalog-version.ts';

const row: Topic = topic({
  producer: 'bookings',
  subscribers: ['audit', 'ledger'],
  description: 'A booking was counted.',
  version: 1,
  payload: z.object({ bookingId: z.string() }),
  example: { bookingId: 'bkg_1' },
});

describe('a catalog', () => {
  test.for<[what: string, is: Record<string, Topic>, said: string]>([
    ['with a new topic', { counted: row, added: row }, '`added` is new.'],
    ['without a topic', {}, '`counted` is gone.'],
    ['with a new version', { counted: { ...row, version: 2 } }, '`counted` has version 2.'],
    [
      'with another producer',
      { counted: { ...row, producer: 'resources' } },
      '`counted` is emitted by resources.',
    ],
    [
      'with another subscriber',
      { counted: { ...row, subscribers: ['audit', 'calendar'] } },
      '`counted` goes to calendar, no longer goes to ledger.',
    ],
    [
      'with a new field',
      { counted: { ...row, payload: z.object({ bookingId: z.string(), seat: z.string().optional() }) } },
      '`counted` has other fields, or another description.',
    ],
    [
      'with another subscriber and another description',
      { counted: { ...row, subscribers: ['audit'], description: 'A booking was counted again.' } },
      '`counted` no longer goes to ledger, has other fields, or another description.',
    ],
  ])('%s is another one, and its changelog says what changed', ([, is, said]) => {
    const [before, after] = [catalogVersionOf({ counted: row }, '1.2.3'), catalogVersionOf(is, '1.2.3')];
    expect(before.version).toBe('1.2');
    expect(after.fingerprint).not.toBe(before.fingerprint);
    expect(changesBetween(before, after)).toEqual([said]);
    expect(changesBetween(before, before)).toEqual([]);
  });

  test('of this release is the one of its version: npm run descriptions raises the version otherwise', () => {
    const { kept, current } = catalogVersions();
    expect(kept).toEqual(current);
  });
});
