import fc from 'fast-check';
import { describe, expect, test } from 'vitest';

import type { TopicName } from '../../lib/bus/catalog/catalog.ts';
import { knownSpans } from '../../lib/platform/masking/known-texts.ts';
import { personalTexts } from '../../lib/bus/catalog/personal-data.ts';
import { maskPersonalData } from '../../lib/platform/masking/personal.ts';
import { readable } from '../../lib/platform/masking/readable.ts';
import type { Span } from '../../lib/platform/masking/readable.ts';
import { payloadOf } from '../support/bus.ts';
import { knownSpans as slowly } from '../support/known-texts-slowly.ts';
import { PERSONAL_TOPICS, withPersonalData } from '../support/personal-data.ts';

describe('an error’s message', () => {
  test.each([
    ['an e-mail address', 'no account for kari.lunde+x@example.no.', 'no account for [hidden].'],
    ['one with our letters', 'to <pål.ås@bærum.kommune.no>', 'to <[hidden]>'],
    ['one in capitals', 'KARI@EXAMPLE.NO bounced', '[hidden] bounced'],
    ['a national id', 'person 01019012345 is unknown', 'person [hidden] is unknown'],
    ['one with a space', 'person 010190 12345 is unknown', 'person [hidden] is unknown'],
    ['one in JSON', '{"ssn":"01019012345"}', '{"ssn":"[hidden]"}'],
    ['a mobile number', 'cannot text 91234567', 'cannot text [hidden]'],
    ['one in groups', 'cannot text 912 34 567', 'cannot text [hidden]'],
    ['another’s groups', 'cannot text 91 23 45 67', 'cannot text [hidden]'],
    ['a landline in groups', 'cannot call 22 33 44 55', 'cannot call [hidden]'],
    ['one with the country’s code', 'cannot text +4791234567', 'cannot text [hidden]'],
    ['that in groups', 'cannot text +47 912 34 567!', 'cannot text [hidden]!'],
    ['a foreign one', 'cannot text +46 70 123 45 67', 'cannot text [hidden]'],
    ['one as payment providers write it', 'cannot text 4791234567', 'cannot text [hidden]'],
    ['one with the code after two zeros', 'cannot text 004791234567', 'cannot text [hidden]'],
    ['a national id with a dash', 'person 010190-12345 is unknown', 'person [hidden] is unknown'],
    ['one with dots', 'person 01.01.90-12345 is unknown', 'person [hidden] is unknown'],
    ['one in groups', 'person 010190 123 45 is unknown', 'person [hidden] is unknown'],
    ['one between no-break spaces', 'person\u00a0010190\u00a012345\u00a0is', 'person\u00a0[hidden]\u00a0is'],
    ['one with a long dash', 'person 010190–12345 is unknown', 'person [hidden] is unknown'],
    ['one in full-width digits', 'person ０１０１９０１２３４５', 'person [hidden]'],
    ['one with the whole year', 'person 01.01.1990-12345', 'person [hidden]'],
    ['one with a line below', 'person 010190_12345', 'person [hidden]'],
    ['a number with the code apart', 'cannot text 00 47 912 34 567', 'cannot text [hidden]'],
    ['a number before a dash', 'cannot text 91234567- gone', 'cannot text [hidden]- gone'],
    ['a number with the code in brackets', 'cannot text (+47) 912-34-567', 'cannot text [hidden]'],
    ['one with a zero in brackets', 'cannot text +47(0)912 34 567', 'cannot text [hidden]'],
    ['one with dots', 'cannot text 912.34.567', 'cannot text [hidden]'],
    ['one with dashes', 'cannot text 91-23-45-67', 'cannot text [hidden]'],
    ['one in fours', 'cannot text 9123 4567', 'cannot text [hidden]'],
    ['one with thin spaces', 'cannot text 912\u202f34\u202f567', 'cannot text [hidden]'],
    ['one in a URL', '/sms?to=%2B4791234567&x=1', '/sms?to=[hidden]&x=1'],
    ['one in threes', 'cannot text 912-345-67', 'cannot text [hidden]'],
    ['a landline that is called one', 'tlf. 22334455 rang', 'tlf. [hidden] rang'],
    ['one that is called so in any groups', 'tel: 91 234 567', 'tel: [hidden]'],
    ['one in a field of JSON', '{"phoneNumber":"22334455"}', '{"phoneNumber":"[hidden]"}'],
    ['one in a key', 'no key citizen_phone_91234567', 'no key citizen_phone_[hidden]'],
    ['a national id in a key', 'no key user_fnr_01019012345', 'no key user_fnr_[hidden]'],
    ['one without a space', 'fnr01019012345, nationalId-010190-12345', 'fnr[hidden], nationalId-[hidden]'],
    ['one after its Norwegian name', 'fødselsnummer_01019012345', 'fødselsnummer_[hidden]'],
    ['a landline with the code', 'cannot call +4722334455', 'cannot call [hidden]'],
    ['a percent-encoded address', 'GET /users/Ola%40Example.no 404', 'GET /users/[hidden] 404'],
    ['one that is encoded twice', 'GET /users/ola%2540example.no 404', 'GET /users/[hidden] 404'],
    ['one that is encoded letter by letter', 'to %6f%6c%61%40%65.no', 'to [hidden]'],
    ['one as HTML', 'to ola&#64;example.no', 'to [hidden]'],
    ['one as JSON', '"ola\\u0040example.no"', '"[hidden]"'],
    ['one that hides from machines', 'to ola (at) example.no', 'to [hidden]'],
    ['an account', 'no account 1234.56.78901', 'no account [hidden]'],
    ['an IBAN', 'no account NO93 8601 1117 947', 'no account [hidden]'],
    ['an IBAN with dashes', 'no account no93-8601-1117-947', 'no account [hidden]'],
    ['an IBAN in one', 'no account NO9386011117947!', 'no account [hidden]!'],
    ['a card', 'card 4242 4242 4242 4242 declined', 'card [hidden] declined'],
    ['a card in one', 'card 4242424242424242 declined', 'card [hidden] declined'],
    ['several', 'a@b.no, c@d.no', '[hidden], [hidden]'],
  ])('%s is masked in an error', (_, message, masked) => {
    expect(maskPersonalData(message, [])).toBe(masked);
  });

  test.each([
    'no event 019a3c1e-9f00-7000-8000-0123456789ab',
    'no event 01901901-2345-7000-8000-912345678901',
    'no event ce420fe8-deac-32ea-8a44-0cce223d8ccb, whose check digits are those of an IBAN',
    'no booking bkg_48213',
    'no intent pi_91234567',
    'short by 62500',
    'since 1771581600',
    'closed since 2026-02-21T18:45:02Z',
    'HTTP 503 after 10000 ms',
    'connect ECONNREFUSED 10.0.0.7:5432',
    'node@22 is no address',
    'no intent pi_3NxQ2eKZ912345674242',
    'no event evt_1QxK2mCaptured of 2026-02-21T18:45:02.123+01:00',
    'short by 62 500 000 of 625 000,00 NOK',
    'short by 62500000',
    'amount 12345678 exceeds 100000000 øre',
    'at 1771581600000, that is 20260221T184502Z or 2026-02-21 18:45:02',
    'HTTP/1.1 429, retry after 3600; 404 of 503',
    'connect ETIMEDOUT 91.23.45.67:5432 or 47.100.10.100:5432',
    'trace 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
    'deliveries 48213-17, version 12.34.567-rc.1',
    'organization 999 000 111',
    'order 4242424242424241 is no card: its check digit is wrong',
    'REFUNDED:bkg-48190-1 of 100%25',
    'hotel 12345678, domain_12345678901, min 12345678901234',
  ])('an error without personal data stays as it is: %s', (message) => {
    expect(maskPersonalData(message, [])).toBe(message);
  });

  test('known texts are masked wherever they stand, the longer text first', () => {
    expect(
      maskPersonalData('Kari Lunde (Kari) of "Lunde & sønn"', ['Kari Lunde', 'Lunde & sønn', 'Kari']),
    ).toBe('[hidden] ([hidden]) of "[hidden]"');
  });

  test('words that hold a very short known text stay', () => {
    expect(maskPersonalData('not here', ['no', 'e'])).toBe('not here');
  });

  test('a known text is masked as JSON writes it, too', () => {
    const purpose = 'Bursdag for "Kari"\nring Per';
    const payload = payloadOf('booking.created', { purpose });
    const masked = maskPersonalData(
      `cannot store ${JSON.stringify(payload)}`,
      personalTexts('booking.created', payload, 1),
    );
    expect(masked).not.toMatch(/Kari|Per/);
  });

  test('a known text is matched literally, not as a pattern', () => {
    expect(maskPersonalData('a.*b (x) $& a.*b', ['a.*b'])).toBe('[hidden] (x) $& [hidden]');
  });

  test.each([
    ['a.'.repeat(1000)],
    [`${'a'.repeat(1000)}@${'b.'.repeat(500)}`],
    [`+${'1 '.repeat(1000)}`],
    ['1'.repeat(2000)],
    ['+(1)'.repeat(500)],
    ['ab12 '.repeat(400)],
    ['%25'.repeat(660)],
    ['4242 '.repeat(400)],
    ['12 '.repeat(660)],
    ['a (at) '.repeat(300)],
    [`tel${' '.repeat(1990)}`],
  ])('a text made to be slow is masked at once: %.12s…', (text) => {
    const before = process.cpuUsage();
    maskPersonalData(text, ['Ola Nordmann', '22 33 44 55']);
    // In microseconds of this process, so that a busy machine is no slow text. Backtracking takes seconds.
    expect(process.cpuUsage(before).user).toBeLessThan(500_000);
  });

  const body = Array.from({ length: 33_000 }, (_, number) => `word${number.toString(26)}`).join(' ');
  const numbers = Array.from({ length: 33_000 }, (_, number) => `${10_000_000 + number}`);
  test.each([
    ['words that may have been cut, against a body of words', 'abc...'.repeat(682), [body]],
    ['the same, as texts of their own', 'abc...'.repeat(682), body.split(' ')],
    ['numbers, against a body of numbers', numbers.slice(0, 400).join('; '), [numbers.join('; ')]],
    ['numbers that may have been cut', '9876...'.repeat(580), numbers],
    [
      'one number, against parts of it',
      '0'.repeat(4000),
      Array.from(numbers, (_, at) => '0'.repeat(7 + (at % 99))),
    ],
    ['one number, against a longer one', '0'.repeat(4000), [`${'0'.repeat(3999)}1`.repeat(60)]],
    ['one word, against a longer one', `${'a'.repeat(4000)}...`, ['a'.repeat(250_000)]],
    ['a name with an apostrophe in each letter', 'a', ["A'".repeat(125_000)]],
  ])('%s, take no longer than reading both', (_, text, known) => {
    const before = process.cpuUsage();
    maskPersonalData(text, known);
    expect(process.cpuUsage(before).user).toBeLessThan(2_000_000);
  });

  test('a payload of more texts than a call has arguments is masked', () => {
    const body = { texts: Array.from({ length: 300_000 }, () => 'x') };
    const payload = { eventId: 'evt_1', eventType: 'x', body: { ...body, name: 'Kari Lunde' } };
    const known = personalTexts('webhook.cardpayments.received', payload, 1);
    expect(maskPersonalData('no Kari', known)).toBe('no [hidden]');
  });
});

const NAME = ['Ola Nordmann'];

describe('a known name', () => {
  test.each([
    ['in capitals', 'no such person: OLA NORDMANN', 'no such person: [hidden]'],
    ['in small letters', 'no such person: ola nordmann', 'no such person: [hidden]'],
    ['joined by a no-break space', 'no such person: Ola\u00a0Nordmann', 'no such person: [hidden]'],
    [
      'joined by any other sign',
      'key OLA_NORDMANN, file ola-nordmann.pdf',
      'key [hidden], file [hidden].pdf',
    ],
    ['joined by nothing', 'user olanordmann', 'user [hidden]'],
    ['joined by nothing, with a number', 'user OlaNordmann90', 'user [hidden]90'],
    ['percent-encoded', 'GET /people?q=Ola%20Nordmann', 'GET /people?q=[hidden]'],
    ['encoded as a form', 'q=ola+nordmann&x=1', 'q=[hidden]&x=1'],
    ['the other way round', 'no such person: Nordmann, Ola', 'no such person: [hidden], [hidden]'],
    ['by the surname alone', 'no such person: Nordmann', 'no such person: [hidden]'],
    ['by the surname in the genitive', 'Nordmanns booking', '[hidden] booking'],
    ['with something invisible in it', 'Nord\u00admann and Nord\u200bmann', '[hidden] and [hidden]'],
    ['in full-width letters', 'Ｎｏｒｄｍａｎｎ', '[hidden]'],
    ['in quotes within JSON', '{\\"name\\":\\"Ola\\nNordmann\\"}', '{\\"name\\":\\"[hidden]\\"}'],
    ['as a program prints bytes', "b'N\\x6frdmann'", "b'[hidden]'"],
    ['cut short by dots', 'value Nordm… is too long', 'value [hidden]… is too long'],
  ])('a known name is masked %s', (_, message, masked) => {
    expect(maskPersonalData(message, NAME)).toBe(masked);
  });

  test.each([
    ['with letters of ours', 'Øyvind Åsheim', 'OYVIND ASHEIM and a\u030asheim and øyvind'],
    ['read as Latin-1', 'Bjørn Sørås', 'BjÃ¸rn SÃ¸rÃ¥s, sÃ¸rÃ¥s'],
    ['in Latin-1', 'Bjørn Sørås', 'q=Bj%F8rn&n=S%f8r%E5s'],
    ['in UTF-8, printed', 'Bjørn Sørås', String.raw`Bj\xc3\xb8rn S\xF8r\xE5s`],
    ['as HTML', 'Bjørn Sørås', 'Bj&oslash;rn S&Oslash;R&Aring;S'],
    ['with letters of others', 'Łukasz Strauß', 'LUKASZ STRAUSS'],
    ['that is double', 'Anne-Marie Holm Berg', 'ANNE MARIE of Holm-Berg'],
    ['spelt without letters of ours', 'Kåre Ødegård', 'KAARE OEDEGAARD, kaare, Odegaard and Oedega...'],
    ['spelt with letters of ours', 'Kaare Oedegaard', 'Kåre Ødegård, kåre and ØDEGÅRD'],
    ['spelt in another way', 'Bjørg Aas', 'Bjoerg Aas, bjorg and AAS'],
    ['of an address', 'ola.nordmann@example.no', 'user ola.nordmann, user Nordmann'],
    ['within a longer text', 'Bursdag for Kari Lunde i storsalen på lørdag', 'no such LUNDE, kari'],
  ])('a known name %s is masked', (_, name, message) => {
    const masked = maskPersonalData(message, [name]);
    expect(masked.match(/\p{L}{3,}/gu)?.filter((word) => !/hidden|and|user|such/.test(word)) ?? []).toEqual(
      [],
    );
  });

  test('words and ids that hold a known name stay', () => {
    const message = 'nordmannsgata is no id; 9f00ada4-0ada-7ada-8ada-0123456789ab; pi_3Ada9x; adapter';
    expect(maskPersonalData(message, ['Ada Nordmann'])).toBe(message);
  });

  test('a known name of two letters is masked where it stands alone', () => {
    expect(maskPersonalData('no person Li, no li_12 for BØ, no x-bo', ['Bø Li'])).toBe(
      'no person [hidden], no li_12 for [hidden], no x-bo',
    );
  });

  test('short words of errors stay, though they are names', () => {
    const message = 'as it is, no row of 3 in /by/id or so';
    expect(maskPersonalData(message, ['Åse Ås', 'Noor By', 'Aas', 'IT Nå AS'])).toBe(message);
  });

  test('common words of errors stay, though they are names', () => {
    expect(maskPersonalData('limit per day may have been odd', ['Odd Per Dag May'])).toBe(
      'limit per day may have been odd',
    );
  });
});

describe('a known number', () => {
  test.each([
    ['22 33 44 55', 'cannot call 22334455'],
    ['+47 22 33 44 55', 'cannot call 2233-4455'],
    ['070-123 45 67', 'cannot call 0701234567 (070 1234567)'],
    ['Ring 22334455 etter 16', 'cannot call 22-33-44-55'],
    ['22334455', `cannot call ${'x'.repeat(1000)} 22 33 4`],
  ])('the known number %s is masked in any grouping', (known, message) => {
    expect(maskPersonalData(message, [known])).not.toMatch(/\d/);
  });
});

/** Syllables that are in no word of an error, so that what is left of a name is seen. */
const syllable = fc.constantFrom('qvi', 'zør', 'xå', 'wæl', 'jyx', 'qod', 'zeb', 'hux');
const word = fc
  .tuple(syllable, syllable, syllable)
  .map((parts) => parts.join('').replace(/^./, (letter) => letter.toUpperCase()));
const digit = fc.integer({ min: 0, max: 9 });
const digits = (length: number) =>
  fc.array(digit, { minLength: length, maxLength: length }).map((all) => all.join(''));

/** Whatever a person may have written, and what must not be left of it. */
interface Written {
  readonly value: string;
  readonly traces: readonly string[];
}

const personName = fc
  .tuple(word, word)
  .map(([first, last]): Written => ({ value: `${first} ${last}`, traces: [first, last] }));
const address = fc.tuple(word, word).map(([first, last]): Written => {
  const local = `${first}.${last}`.toLowerCase();
  return { value: `${local}@eksempel.no`, traces: [first, last] };
});
const nationalId = digits(11).map((all): Written => ({ value: all, traces: [all] }));
const telephone = fc
  .tuple(fc.constantFrom('4', '9'), digits(7))
  .map(([first, rest]): Written => ({ value: `+47${first}${rest}`, traces: [`${first}${rest}`] }));

const space = fc.constantFrom(' ', '\u00a0', '\u202f', '  ', '_', '-', '+', '%20', '&nbsp;', '\\n');
const letterCase = fc.constantFrom<(text: string) => string>(
  (text) => text,
  (text) => text.toUpperCase(),
  (text) => text.toLowerCase(),
);
const encoding = fc.constantFrom<(text: string) => string>(
  (text) => text,
  (text) => encodeURIComponent(text),
  (text) => encodeURIComponent(encodeURIComponent(text)),
  (text) => JSON.stringify(text).slice(1, -1),
  (text) => text.normalize('NFD'),
  (text) =>
    text.replaceAll(/[^ -~]/gu, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`),
);

const grouped = (all: string, groups: readonly number[], sign: string) => {
  let from = 0;
  return groups.map((length) => all.slice(from, (from += length))).join(sign);
};

/** The ways in which an error may repeat what was written. */
function rewritten(written: Written): fc.Arbitrary<string> {
  const { value, traces } = written;
  if (/^\d{11}$/.test(value)) {
    return fc
      .tuple(
        fc.constantFrom([11], [6, 5], [6, 3, 2], [2, 2, 2, 5]),
        fc.constantFrom(' ', '-', '\u00a0', '.', '–'),
      )
      .map(([groups, sign]) => grouped(value, groups, sign));
  }
  if (value.startsWith('+47')) {
    return fc
      .tuple(
        fc.constantFrom('', '+47', '+47 ', '(+47) ', '0047', '0047 ', '(47) ', '47 ', '%2B47'),
        fc.constantFrom([8], [3, 2, 3], [2, 2, 2, 2], [4, 4]),
        fc.constantFrom(' ', '\u00a0'),
        fc.boolean(),
      )
      .map(
        ([code, groups, sign, isDashed]) =>
          code + grouped(value.slice(3), groups, isDashed && groups.length > 2 ? '-' : sign),
      );
  }
  if (value.includes('@')) {
    return fc.tuple(letterCase, encoding).map(([cased, encoded]) => encoded(cased(value)));
  }
  return fc
    .tuple(fc.subarray([...traces], { minLength: 1 }), space, letterCase, encoding, fc.boolean())
    .map(([words, sign, cased, encoded, isTurned]) =>
      (isTurned ? words.toReversed() : words).map((one) => encoded(cased(one))).join(sign),
    );
}

/** The topic's example with this in each field that is marked. */
const filled = (topic: TopicName, { value }: Written) =>
  withPersonalData(topic, ({ type, format }) => {
    if (type === 'object') return { customer: { told: [value] } };
    return format === 'email' && !value.includes('@') ? 'post@eksempel.no' : value;
  });

/** Reads a text past its writing without the code that is tested. */
function plain(text: string): string {
  const decoded = text
    .replaceAll(/\\u([0-9a-f]{4})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    .replaceAll(/%(?:25)*([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  return decoded
    .normalize('NFKC')
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]/gu, '');
}

describe('what is found of known texts', () => {
  const piece = fc.oneof(
    fc.constantFrom(
      'ola',
      'Ola',
      'Olas',
      'Nordmann',
      'Aase',
      'åse',
      'ase',
      'Bø',
      'Li',
      'error',
      'as',
      'x1',
      'Per.',
    ),
    fc.constantFrom(
      '912 34 567',
      '91234567',
      '4791234567',
      '+47 91 23 45 67',
      '345678',
      '12',
      '123456789',
      '0123',
    ),
    fc.constantFrom('ola@example.no', 'abc', 'abcdef', 'Jean-Luc', "O'Neill", 'no_li', 'a'.repeat(300)),
    fc.constant('019c7f3e-5d20-7a41-8c1e-912345670000'),
    fc.string({ unit: fc.constantFrom('a', 'e', 'o', 's', 'L', '4', '7', '.', '-', ' ', '…', 'ø', '%') }),
  );
  const text = fc
    .array(fc.tuple(piece, fc.constantFrom(' ', ' ', ', ', '...', '_', '/', '', ' (')), { maxLength: 9 })
    .map((written) => written.flat().join(''));
  const message = fc
    .tuple(fc.constantFrom('', '', 'x y '.repeat(250)), text, fc.constantFrom('', '...', ' 91', '912'))
    .map((parts) => readable(parts.join('')).text);

  test('is what comparing each with each finds', () => {
    fc.assert(
      fc.property(message, fc.array(text, { maxLength: 4 }), (said, known) => {
        expect(spansOf(knownSpans(said, known))).toEqual(spansOf(slowly(said, known)));
      }),
      { numRuns: 1000 },
    );
  });

  /** Some are found in several ways. */
  const spansOf = (spans: readonly Span[]) =>
    [...new Set(spans.map(({ start, end }) => `${start}-${end}`))].toSorted();
});

describe('an error that repeats a payload’s personal data in any writing', () => {
  const message = fc
    .record({
      topic: fc.constantFrom(...PERSONAL_TOPICS),
      written: fc.oneof(personName, address, nationalId, telephone),
      before: fc.constantFrom(
        'no such person: ',
        'cannot text ',
        '{"error":"',
        'GET /people?q=',
        'duplicate key (',
      ),
      after: fc.constantFrom('', '.', ' is unknown', '"}', '&limit=5', ') already exists', '!'),
    })
    .chain((said) => rewritten(said.written).map((repeated) => ({ ...said, repeated })));

  test('personal data of a payload is masked in any writing, and the text around it stays', () => {
    fc.assert(
      fc.property(message, ({ topic, written, before, repeated, after }) => {
        const payload = filled(topic, written);
        // Some topics have room for an address alone.
        fc.pre(JSON.stringify(payload).includes(written.value));
        const masked = maskPersonalData(before + repeated + after, personalTexts(topic, payload, 1));
        const left = plain(masked);
        for (const trace of written.traces) expect(left).not.toContain(plain(trace));
        expect(masked.startsWith(before) || before === 'duplicate key (').toBe(true);
        expect(masked.endsWith(after)).toBe(true);
      }),
      { numRuns: 500 },
    );
  });

  const harmless = fc.oneof(
    fc.uuid(),
    fc.stringMatching(/^(pi|evt|bkg|cus)_[0-9A-Za-z]{8,24}$/),
    fc
      .date({ min: new Date('2000-01-01'), max: new Date('2099-12-31'), noInvalidDate: true })
      .map((at) => at.toISOString()),
    fc.integer({ min: 100, max: 599 }).map((status) => `HTTP ${status}`),
    fc.integer({ min: 0, max: 39_999_999 }).map((amount) => `amount ${amount}`),
    fc.integer({ min: 1_600_000_000_000, max: 1_900_000_000_000 }).map((ms) => `after ${ms} ms`),
    fc.ipV4().map((ip) => `connect ${ip}:5432`),
  );

  test('ids, statuses, instants, amounts and addresses of computers stay', () => {
    fc.assert(
      fc.property(fc.constantFrom(...PERSONAL_TOPICS), personName, harmless, (topic, written, text) => {
        const known = personalTexts(topic, filled(topic, written), 1);
        expect(maskPersonalData(`refused: ${text}.`, known)).toBe(`refused: ${text}.`);
      }),
      { numRuns: 500 },
    );
  });
});
