import { describe, expect, test } from 'vitest';

import { requireAcceptable, wantsHtml } from '../../lib/platform/http/negotiate.ts';
import { Problem } from '../../lib/platform/http/problem.ts';
import { cpuMs } from '../support/cpu.ts';

const FIREFOX = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8';
const CHROME =
  'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7';

/** What a caller with this header gets. */
function answerTo(accept: string | undefined): 'HTML' | 'JSON' | 406 {
  const headers = new Headers(accept === undefined ? {} : { accept });
  try {
    requireAcceptable(headers);
  } catch (error) {
    expect(error).toMatchObject({ status: 406, code: 'not_acceptable' });
    expect(wantsHtml(headers)).toBe(false);
    return 406;
  }
  return wantsHtml(headers) ? 'HTML' : 'JSON';
}

describe('a caller', () => {
  test.each([
    ['that is Firefox or Safari', FIREFOX, 'HTML'],
    ['that is Chromium', CHROME, 'HTML'],
    ['that is the fetch of a browser, or curl', '*/*', 'JSON'],
    ['that is axios', 'application/json, text/plain, */*', 'JSON'],
    ['that is Java’s own', 'text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2', 'HTML'],
    ['that says nothing', undefined, 'JSON'],
    ['that says nothing at all', '', 'JSON'],
  ] as const)('%s gets the type that it expects', (_, accept, expected) => {
    expect(answerTo(accept)).toBe(expected);
  });
});

describe('the Accept header', () => {
  test.each([
    // By their qualities.
    ['text/html', 'HTML'],
    ['application/json', 'JSON'],
    ['text/html, application/json', 'JSON'],
    ['application/json, text/html', 'JSON'],
    ['text/html;q=0.9, application/json;q=0.8', 'HTML'],
    ['text/html;q=0.8, application/json;q=0.9', 'JSON'],
    ['text/html;q=0.001', 'HTML'],
    ['text/html;q=0.501, application/json;q=0.5', 'HTML'],
    ['text/html;q=1.000, application/json;q=1', 'JSON'],
    ['text/html;q=0.5, */*;q=0.1', 'HTML'],
    ['text/html;q=0.1, */*;q=0.5', 'JSON'],
    // The range that names a type most closely decides on it.
    ['text/*', 'HTML'],
    ['application/*', 'JSON'],
    ['text/*, application/*', 'JSON'],
    ['text/*, application/*;q=0.5', 'HTML'],
    ['*/*, text/html;q=0', 'JSON'],
    ['*/*, application/json;q=0', 'HTML'],
    ['text/*, text/html;q=0.1, application/json;q=0.2', 'JSON'],
    ['text/html, text/*;q=0.1, application/json;q=0.2', 'HTML'],
    ['application/*;q=0, */*', 'HTML'],
    ['text/html;q=0.3, text/html;q=0.9, application/json;q=0.5', 'JSON'],
    // With parameters.
    ['text/html;charset=utf-8', 'HTML'],
    ['text/html; charset="UTF-8" ; q=0.5, application/json;q=0.4', 'HTML'],
    ['text/html;charset=utf-8;q=0.1, text/html;q=0.9, application/json;q=0.5', 'JSON'],
    ['text/html;level=1, application/json;q=0.1', 'JSON'],
    ['TEXT/HTML;Q=0.5', 'HTML'],
    ['text/html;q="0.5", application/json;q=0.4', 'HTML'],
    ['text/html;q=0.2;x=1, application/json;q=0.3', 'JSON'],
    ['text/plain;x="a, text/html", application/json;q=0.1', 'JSON'],
    ['text/plain;x="a\\", text/html", application/json;q=0.1', 'JSON'],
    ['application/problem+json, text/html;q=0.2', 'HTML'],
    ['application/problem+json, application/json, text/html;q=0.5', 'JSON'],
    ['application/problem+json;q=0.1, */*;q=0.5', 'JSON'],
    // Anything that is not a media range counts as left out.
    ['garbage', 'JSON'],
    [',,, ;q=1, /, text/, /html', 'JSON'],
    ['text/html;q=high', 'JSON'],
    ['text/html;q=2', 'JSON'],
    ['text/html;q=-1', 'JSON'],
    ['text/html;q=1.5, application/json;q=0.1', 'JSON'],
    ['text/html;q=NaN, application/json;q=Infinity', 'JSON'],
    ['garbage, text/html', 'HTML'],
    ['garbage, image/png', 406],
    ['text/html,"', 'HTML'],
    ['__proto__/constructor', 406],
    // Neither type is acceptable.
    ['image/png', 406],
    ['text/plain, application/xml', 406],
    ['application/problem+json', 406],
    ['text/html;q=0', 406],
    ['application/json;q=0', 406],
    ['application/json;q=0.0, text/html;q=0.000', 406],
    ['*/*;q=0', 406],
    ['text/*;q=0, application/*;q=0', 406],
    ['text/html;level=1', 406],
    ['application/json;odata=verbose', 406],
    ['text/html;charset=iso-8859-1', 406],
    ['*/html', 406],
  ] as const)('the Accept header %s is answered with %s', (accept, expected) => {
    expect(answerTo(accept)).toBe(expected);
  });

  test('a 406 says what to write in Accept', () => {
    const headers = new Headers({ accept: 'image/png' });
    expect(() => requireAcceptable(headers)).toThrow(Problem);
    expect(() => requireAcceptable(headers)).toThrow(/Send Accept: text\/html or Accept: application\/json/);
  });

  test.each([
    ['of many ranges', 'text/html,'.repeat(20_000)],
    ['of one range', `text/html;x=${'y'.repeat(200_000)}`],
    ['of quotes', '"\\'.repeat(100_000)],
  ])('a header longer than any browser’s, %s, is answered with JSON at once', (_, accept) => {
    expect(answerTo(accept)).toBe('JSON');
    expect(cpuMs(() => answerTo(accept))).toBeLessThan(50);
  });

  test('a long header of quotes is read at once', () => {
    const tookMs = cpuMs(() => {
      for (const part of ['"\\', '"', '",', ';x="', ',']) answerTo(part.repeat(2000 / part.length));
    });
    expect(tookMs).toBeLessThan(200);
  });
});
