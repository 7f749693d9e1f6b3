import { describe, expect, test } from 'vitest';

import { saidIn } from '../../lib/platform/said.ts';

describe('what a component says in an answer', () => {
  test.each([
    ['the line of a text', 'account closed', 'account closed'],
    ['the first line of several', '\n licence  expired\nat line 3', 'licence expired'],
    ['the detail of a problem', '{"title":"Gone","status":410,"detail":"account closed"}', 'account closed'],
    ['the title of a problem without one', '{"title":"Account closed","detail":""}', 'Account closed'],
    [
      'the message inside an error',
      '{"error":{"code":"E17","message":"unknown booking bkg_7"}}',
      'unknown booking bkg_7',
    ],
    [
      'the first of several errors',
      '{"errors":[{"message":"no account"},{"message":"no VAT"}]}',
      'no account',
    ],
    ['a code, where there are no words', '{"code":"account_closed"}', 'account_closed'],
    ['the detail of JSON that was cut', '{"detail":"account closed","trace":"at handle (…', 'account closed'],
  ])('is %s', (_, answer, said) => {
    expect(saidIn(answer)).toBe(said);
  });

  test.each([
    ['no answer', null],
    ['an empty one', ' \n'],
    ['a page of HTML', '<!doctype html><title>Oops</title>'],
    ['JSON without words', '{"licence":17}'],
    ['a binary body', '[a binary body of type image/png, 17 bytes]'],
  ])('is nothing for %s', (_, answer) => {
    expect(saidIn(answer)).toBeNull();
  });

  test('is cut where it is long, and has no line breaks or controls', () => {
    expect(saidIn('no '.repeat(100))).toMatch(/^(?:no )+no…$/);
    expect(saidIn('{"detail":"two\\nlines\\u0007"}')).not.toMatch(/\p{Cc}/u);
  });
});
