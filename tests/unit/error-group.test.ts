import { describe, expect, test } from 'vitest';

import { errorGroupOf } from '../../lib/bus/deliveries/error-group.ts';
import { cpuMs } from '../support/cpu.ts';

const group = (message: string, kind = 'TypeError', subscriber = 'ledger', topic = 'payment.captured') =>
  errorGroupOf(topic, subscriber, kind, message);

describe('one group holds messages that differ in', () => {
  test.each([
    ['a number', 'period 12 is closed', 'period 7 is closed'],
    ['an amount', 'short by 1234,50 kr', 'short by 7,00 kr'],
    [
      'a UUID',
      'no event 019a3c1e-9f00-7000-8000-0123456789ab',
      'no event 019b4d2f-0a11-7abc-9def-ba9876543210',
    ],
    ['one of our ids', 'no booking bkg_48213', 'no booking bkg_7'],
    ['a provider’s id', 'no intent pi_3QxSolvik48213', 'no intent pi_9ZzNordvag11'],
    ['a hash', 'digest a1b2c3d4e5f6 differs', 'digest 00ff11ee22dd differs'],
    ['an instant', 'closed since 2026-02-21T18:45:02Z', 'closed since 2025-12-01T00:00:00.123Z'],
    ['an address and a port', 'connect ECONNREFUSED 10.0.0.7:5432', 'connect ECONNREFUSED 192.168.17.4:6543'],
    ['a masked address', 'no account of [hidden]', 'no account of [hidden]'],
    ['white space', 'two\n lines', 'two lines'],
    ['how long it took', 'timeout after 10000 ms', 'timeout after 9 ms'],
  ])('messages that differ only in %s are one group', (_, one, other) => {
    expect(group(one)).toEqual(group(other));
    expect(group(one).message).not.toMatch(/\d/);
  });
});

describe('other groups hold', () => {
  const usual = group('refused').key;

  test.each([
    ['another message', group('refused again')],
    ['another kind', group('refused', 'RangeError')],
    ['another subscriber', group('refused', 'TypeError', 'accounting')],
    ['another topic', group('refused', 'TypeError', 'ledger', 'invoice.paid')],
  ])('messages that differ in %s are two groups', (_, { key }) => {
    expect(key).not.toBe(usual);
  });

  test('messages with another HTTP status are another group', () => {
    expect(group('HTTP 500').key).not.toBe(group('HTTP 503').key);
    expect(group('HTTP 404').message).toBe('HTTP 404');
    expect(group('HTTP 302').key).toBe(group('HTTP 200').key);
  });

  test('names whose parts would run together are other groups', () => {
    expect(group('c', 'b', 'a').key).not.toBe(group('c', 'b', 'a ').key);
    expect(errorGroupOf('a', 'b c', 'd', 'e').key).not.toBe(errorGroupOf('a b', 'c', 'd', 'e').key);
    expect(errorGroupOf('a', 'b', 'c", "d', 'e').key).not.toBe(errorGroupOf('a', 'b', 'c', 'd", "e').key);
  });
});

describe('what a component answered', () => {
  const answered = (said: string) => group(`the subscriber answered 410: ${said}`, 'permanent');

  test('two causes behind one status are two groups, which say them', () => {
    expect(answered('account closed').message).toBe('the subscriber answered 410: account closed');
    expect(answered('account closed').key).not.toBe(answered('unknown booking bkg_48213').key);
  });

  test('one cause with many ids is one group', () => {
    expect(answered('unknown booking bkg_48213')).toEqual(answered('unknown booking bkg_7'));
  });
});

describe('a group', () => {
  test('a group is named by sixteen hex digits that never change', () => {
    expect(group('refused').key).toMatch(/^[0-9a-f]{16}$/);
    expect(group('refused')).toEqual(group('refused'));
  });

  test('a group keeps the words of its message', () => {
    expect(group('Cannot read properties of undefined (reading "amount")').message).toBe(
      'Cannot read properties of undefined (reading "amount")',
    );
  });

  test('an empty message has a group, too', () => {
    expect(group('')).toMatchObject({ kind: 'TypeError', message: '' });
  });

  test('long messages are told apart by their beginnings, cut between characters', () => {
    const long = (end: string) => `${'so much to say '.repeat(30)}${end}`;
    expect(group(long('a')).key).toBe(group(long('b')).key);
    expect(group(long('a')).message).toHaveLength(300);
    const emoji = group(`${'x'.repeat(299)}🎂`).message;
    expect(emoji.isWellFormed()).toBe(true);
  });

  test('a message made to be slow is grouped at once', () => {
    const tookMs = cpuMs(() => {
      group('1-'.repeat(1000));
      group('…:'.repeat(1000));
      group(`${'a'.repeat(1000)}${' '.repeat(1000)}`);
    });
    expect(tookMs).toBeLessThan(200);
  });
});
