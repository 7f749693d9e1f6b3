import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { problemCodes } from '../../lib/http/problem-codes.ts';
import { bodyProblems, type BodyProblem, parseWebhookBody } from '../../lib/webhooks/body.ts';

describe('a body that can be stored', () => {
  test('a storable body is returned as an object', () => {
    expect(parse('{"id":"evt_1","data":{"amount":1200,"lines":[1,2.5,null,true,"blåbær 🫐"]}}')).toEqual({
      ok: true,
      body: { id: 'evt_1', data: { amount: 1200, lines: [1, 2.5, null, true, 'blåbær 🫐'] } },
    });
  });

  test('a storable body may be empty, with white space around it', () => {
    expect(parse(' \r\n\t{} ')).toEqual({ ok: true, body: {} });
  });

  test.each([
    ['objects', '{"a":'.repeat(63) + '{}' + '}'.repeat(63)],
    ['arrays in an object', '{"a":' + '['.repeat(63) + ']'.repeat(63) + '}'],
  ])('a storable body may nest 64 levels of %s', (_, text) => {
    expect(parse(text).ok).toBe(true);
  });

  test('a storable body may hold every finite number', () => {
    expect(parse('{"a":[1.7976931348623157e308,5e-324,-0,9007199254740993]}').ok).toBe(true);
  });

  test('a storable body may hold any JSON object that has no other fault', () => {
    const text = fc.string({ unit: 'grapheme' });
    const value = fc.jsonValue({ maxDepth: 8, stringUnit: 'grapheme' });
    fc.assert(
      fc.property(fc.dictionary(text, value), (object) => {
        const json = JSON.stringify(object);
        expect(parse(json)).toEqual({ ok: true, body: JSON.parse(json) });
      }),
    );
  });
});

describe('a body that is refused', () => {
  const refused: [title: string, reason: BodyProblem, body: string | Uint8Array][] = [
    ['a byte that is not UTF-8', 'invalid_utf8', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])],
    ['an overlong encoding', 'invalid_utf8', Buffer.from([0x7b, 0xc0, 0xa2, 0x7d])],
    ['a surrogate encoded as UTF-8', 'invalid_utf8', Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22])],
    ['a character that is cut off', 'invalid_utf8', Buffer.from('{"a":"å').subarray(0, -1)],
    ['UTF-16', 'invalid_utf8', Buffer.from('\uFEFF{}', 'utf16le')],
    ['no bytes', 'invalid_json', ''],
    ['a byte order mark', 'invalid_json', '\uFEFF{}'],
    ['text', 'invalid_json', '} I am not valid JSON; 123]['],
    ['two objects', 'invalid_json', '{}{}'],
    ['a trailing comma', 'invalid_json', '{"a":1,}'],
    ['NaN', 'invalid_json', '{"a":NaN}'],
    ['a raw NUL byte in a string', 'invalid_json', '{"a":"\0"}'],
    ['an array', 'not_an_object', '[{"id":"evt_1"}]'],
    ['null', 'not_an_object', 'null'],
    ['a string', 'not_an_object', '"evt_1"'],
    ['a number', 'not_an_object', '1'],
    ['an escaped U+0000 in a string', 'unsupported_text', '{"a":["x\\u0000y"]}'],
    ['an escaped U+0000 in a key', 'unsupported_text', '{"a":{"\\u0000":1}}'],
    ['a lone high surrogate', 'unsupported_text', '{"a":"\\ud800"}'],
    ['a lone low surrogate in a key', 'unsupported_text', '{"\\udc00":1}'],
    ['surrogates in the wrong order', 'unsupported_text', '{"a":"\\udc00\\ud800"}'],
    ['a 65th level', 'too_deep', '{"a":' + '['.repeat(64) + ']'.repeat(64) + '}'],
    ['100,000 levels of arrays', 'too_deep', '{"a":' + '['.repeat(1e5) + ']'.repeat(1e5) + '}'],
    ['100,000 levels of objects', 'too_deep', '{"a":'.repeat(1e5) + '1' + '}'.repeat(1e5)],
    ['a number beyond double precision', 'unsupported_number', '{"a":1e200000}'],
    ['the same below zero, in an array', 'unsupported_number', '{"a":[0,-1e309]}'],
  ];

  test.each(refused)('a body with %s is refused as %s', (_, reason, body) => {
    expect(parse(body)).toEqual({ ok: false, reason });
  });

  test('every reason for a refused body has a sentence for the sender', () => {
    const reasons = new Set(refused.map(([, reason]) => reason));
    expect([...reasons].sort()).toEqual([...bodyProblems].sort());
    for (const code of bodyProblems) expect(problemCodes[code].detail).toMatch(/^[A-Z].+\.$/);
  });

  test('the parser never throws', () => {
    fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => void parse(bytes)));
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(...'{}[]":,\\u0d8e1') }), (text) => void parse(text)),
    );
  });
});

describe('keys that mean something to JavaScript', () => {
  test('keys that mean something to JavaScript are plain data', () => {
    const parsed = parse(
      '{"__proto__":{"id":"evt_forged"},"constructor":{"prototype":{"id":"x"}},"toString":1}',
    );
    const body = parsed.ok ? parsed.body : {};
    expect(Object.getPrototypeOf(body)).toBe(Object.prototype);
    expect(body['id']).toBeUndefined();
    expect(Object.keys(body)).toEqual(['__proto__', 'constructor', 'toString']);
    expect('id' in {}).toBe(false);
  });

  test('keys that mean something to JavaScript are checked like any other', () => {
    expect(parse('{"__proto__":{"a":"\\u0000"}}')).toEqual({ ok: false, reason: 'unsupported_text' });
  });
});

function parse(body: string | Uint8Array) {
  return parseWebhookBody(typeof body === 'string' ? Buffer.from(body) : body);
}
