import { describe, expect, test } from 'vitest';

import { csvOf } from '../../lib/console/kit/csv.ts';

const lineOf = (value: unknown) => csvOf(['field'], [{ field: value }]).slice('field\r\n'.length);

describe('a list as CSV', () => {
  test('begins with the columns, ends each line with CRLF, and has the fields of an object in columns of their own', () => {
    const rows = [
      { id: '12-345', lastError: { kind: 'http_500', message: 'down' }, at: '2026-11-24T01:12:30.000Z' },
      { id: '12-346', lastError: null, at: null },
    ];
    expect(csvOf(['id', 'lastError.kind', 'lastError.message', 'at'], rows)).toBe(
      'id,lastError.kind,lastError.message,at\r\n12-345,http_500,down,2026-11-24T01:12:30.000Z\r\n12-346,,,\r\n',
    );
  });

  test.each([
    ['a comma', 'a,b', '"a,b"\r\n'],
    ['quotes', 'say "no"', '"say ""no"""\r\n'],
    ['line breaks', 'a\r\nb', '"a\r\nb"\r\n'],
    ['a number, also below zero', -1204.5, '-1204.5\r\n'],
    ['a boolean', false, 'false\r\n'],
    ['texts', ['ledger', 'audit'], 'ledger; audit\r\n'],
    ['objects', [{ topic: 'payment.captured' }], '"[{""topic"":""payment.captured""}]"\r\n'],
  ])('writes %s so that it is read back', (_, value, line) => {
    expect(lineOf(value)).toBe(line);
  });

  test.each(['=1+1', '+1', '-1+1', '@SUM(A1)', '\t=1', '=cmd|"/c calc"!A1'])(
    'a spreadsheet does not take %j for a formula',
    (formula) => {
      expect(lineOf(formula).replace(/^"/, '')).toMatch(/^'/);
      expect(lineOf(formula)).toContain(formula.replaceAll('"', '""'));
    },
  );
});
