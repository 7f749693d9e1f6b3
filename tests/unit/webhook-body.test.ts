import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { problemCodes } from '../../lib/platform/http/problem-codes.ts';
import { bodyProblems, type BodyProblem, parseWebhookBody } from '../../lib/edge/webhooks/body.ts';

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

  test.each([
    '0',
    '-0',
    '-0.0',
    '0e9',
    '1.50',
    '1e2',
    '100E-2',
    '0.1',
    '-0.30000000000000004',
    '62500.00',
    '9007199254740992',
    '-9007199254740992',
    '1e21',
    '1234567890123456e-9',
    '1.7976931348623157e308',
    '5e-324',
  ])('a storable body may hold the number %s, which a double keeps', (number) => {
    expect(parse(`{"a":[${number}]}`)).toEqual({ ok: true, body: { a: [Number(number)] } });
  });

  test('a storable body may hold any number in a text', () => {
    expect(parse('{"\\"1e999":"\\\\\\" 12345678901234567890","b":"1e999"}').ok).toBe(true);
  });

  test('a storable body may hold any JSON object that has no other fault', () => {
    const text = fc.string({ unit: 'grapheme' });
    const value = fc.jsonValue({ maxDepth: 8, stringUnit: 'grapheme' });
    fc.assert(
      fc.property(fc.dictionary(text, value), (object) => {
        const json = JSON.stringify(object);
        // An integer beyond 2^53.
        fc.pre(!/\d{16}/.test(json));
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
    ['an integer of 20 digits', 'unsupported_number', '{"a":12345678901234567890}'],
    ['the first integer beyond 2^53', 'unsupported_number', '{"a":9007199254740993}'],
    ['the same below zero', 'unsupported_number', '{"a":-9007199254740993}'],
    ['an integer beyond 2^53 that a double could hold', 'unsupported_number', '{"a":9007199254740994}'],
    ['one with a fraction of zeros', 'unsupported_number', '{"a":12345678901234567890.00}'],
    ['one with an exponent', 'unsupported_number', '{"a":12345678901234567.89E3}'],
    ['more digits than a double keeps', 'unsupported_number', '{"a":{"b":[1,1.00000000000000000001]}}'],
    ['a number next to zero', 'unsupported_number', '{"a":1e-400}'],
    ['another number than the nearest to zero', 'unsupported_number', '{"a":4e-324}'],
    ['a number behind a text with a quote', 'unsupported_number', '{"a\\"":9007199254740993}'],
    ['200,000 zeros in a number', 'unsupported_number', `{"a":1${'0'.repeat(200_000)}1}`],
  ];

  test.each(refused)('a body with %s is refused as %s', (_, reason, body) => {
    expect(parse(body)).toEqual({ ok: false, reason });
  });

  test('each number of a body is kept with its value, or the body is refused', () => {
    const digits = fc.string({ unit: fc.constantFrom(...'0001234567899'), minLength: 1, maxLength: 24 });
    const number = fc
      .record({
        sign: fc.constantFrom('', '-'),
        whole: digits.map((text) => text.replace(/^0+(?=.)/, '')),
        fraction: fc.oneof(
          fc.constant(''),
          digits.map((text) => `.${text}`),
        ),
        power: fc.oneof(
          fc.constant(''),
          fc.integer({ min: -340, max: 320 }).map((power) => `e${power}`),
        ),
      })
      .map(({ sign, whole, fraction, power }) => `${sign}${whole}${fraction}${power}`);
    let [kept, refused] = [0, 0];
    fc.assert(
      fc.property(number, (written) => {
        const parsed = parse(`{"a":${written}}`);
        if (!parsed.ok) return void (refused += 1);
        kept += 1;
        const [value, sent] = [JSON.stringify(parsed.body['a']), written].map(fractionOf);
        expect(value!.over * sent!.under).toBe(sent!.over * value!.under);
      }),
      { numRuns: 2000 },
    );
    expect([kept, refused].every((count) => count > 100)).toBe(true);
  });

  /** Reads a number exactly. */
  function fractionOf(written: string): { over: bigint; under: bigint } {
    const [, sign, whole, fraction = '', power = '0'] = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/.exec(
      written,
    )!;
    const shift = Number(power) - fraction.length;
    const over = BigInt(`${sign}${whole}${fraction}`) * 10n ** BigInt(Math.max(0, shift));
    return { over, under: 10n ** BigInt(Math.max(0, -shift)) };
  }

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
