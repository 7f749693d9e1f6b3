import { describe, expect, test } from 'vitest';

import { sourceKind } from '../../lib/components/inquiries/inquiry-mail.ts';
import { inquiryRequest, TRAP } from '../../lib/edge/inquiry/inquiry-request.ts';

const inquiry = {
  name: 'Kari Nordmann',
  email: 'kari@example.no',
  organization: 'Bærum kommune',
  topic: 'Demo av hallbooking',
  persona: 'driftsleder',
  source: 'kontakt-salg',
};

function issuesOf(fields: object): string[] {
  const parsed = inquiryRequest.safeParse({ ...inquiry, ...fields });
  return (parsed.error?.issues ?? []).map(
    ({ path, code, ...rest }) => `${path.join('.')}: ${'format' in rest ? `invalid_${rest.format}` : code}`,
  );
}

const LENGTHS = {
  name: 120,
  organization: 200,
  topic: 200,
  persona: 80,
  phone: 40,
  summary: 4000,
  message: 10_000,
  contextSummary: 8000,
};

const REQUIRED = ['name', 'email', 'organization', 'topic', 'persona', 'source'];
const SINGLE_LINES = ['name', 'organization', 'topic', 'phone', 'persona'] as const;

describe('the fields of an inquiry', () => {
  test.each(Object.entries(LENGTHS))('%s is at most %i characters', (field, most) => {
    expect(issuesOf({ [field]: 'a'.repeat(most) })).toEqual([]);
    expect(issuesOf({ [field]: 'a'.repeat(most + 1) })).toEqual([`${field}: too_big`]);
  });

  test.each(REQUIRED)('%s is required and not blank', (field) => {
    expect(issuesOf({ [field]: undefined })).toEqual([`${field}: invalid_type`]);
    expect(issuesOf({ [field]: '' })).toEqual([`${field}: too_small`]);
    expect(issuesOf({ [field]: ' \r\n\t ' })).toEqual([`${field}: too_small`]);
    expect(issuesOf({ [field]: '\u200B \u3164\u2800' })).toEqual([`${field}: too_small`]);
    expect(issuesOf({ [field]: 5 })).toEqual([`${field}: invalid_type`]);
  });

  test.each(['phone', 'summary', 'message', 'contextSummary'] as const)(
    '%s may be left out, null or blank, with the same result',
    (field) => {
      for (const value of [undefined, null, '', '  ', '\u200B \u3164\u2800']) {
        expect(inquiryRequest.parse({ ...inquiry, [field]: value })[field]).toBeUndefined();
      }
    },
  );

  test.each([
    'post@bærum.kommune.no',
    'post@BÆRUM.kommune.no',
    'ola.nordmann+test@sub.example.no',
    "o'brien@example.no",
    'post@xn--brum-voa.kommune.no',
  ])('email may be %s', (email) => {
    expect(issuesOf({ email })).toEqual([]);
  });

  test.each([
    'post',
    'post@',
    '@example.no',
    'a@b',
    'a b@example.no',
    'a@example.no\r\nBcc: b@example.no',
    'Kari <kari@example.no>',
    'a@example.no,b@example.no',
    'a@b@example.no',
    'a@example.no/b',
    'a@ex%61mple.no',
    'a@exam\u202Eple.no/',
    'a@127.0.0.1',
  ])('email may not be %j', (email) => {
    expect(issuesOf({ email })).toEqual(['email: invalid_email']);
  });

  test('email is at most 254 characters, of its domain’s ASCII form too', () => {
    const domain = `${'a'.repeat(60)}.${'b'.repeat(60)}.${'c'.repeat(60)}.no`;
    const local = 'l'.repeat(254 - domain.length - 1);
    expect(issuesOf({ email: `${local}@${domain}` })).toEqual([]);
    expect(issuesOf({ email: `${local}l@${domain}` })).toEqual(['email: too_big']);
    expect(issuesOf({ email: `${local}@${domain.replace('a', 'æ')}` })).toEqual(['email: invalid_email']);
  });

  test.each(['innbygger', 'saksbehandler', 'driftsleder', 'kulturskolerektor'])(
    'persona may be %s',
    (persona) => {
      expect(inquiryRequest.parse({ ...inquiry, persona }).persona).toBe(persona);
    },
  );

  test.each([
    ['chatbot', 'chatbot'],
    ['book-demo', 'book-demo'],
    ['kontakt-salg', 'kontakt'],
    ['kontakt-nordvåg_2', 'kontakt'],
    ['kontakt-om oss', 'kontakt'],
    ['kontakt-Priser & vilkår (2026): 50 % rabatt?', 'kontakt'],
    ['kontakt-<b>', 'kontakt'],
    ['kontakt-漢字 👍', 'kontakt'],
    ['kontakt--', 'kontakt'],
  ])('source may be %s', (source, kind) => {
    expect(sourceKind(inquiryRequest.parse({ ...inquiry, source }))).toBe(kind);
  });

  test('the source becomes one line', () => {
    const source = ' kontakt-om\r\noss\u0000\t2\u2028x ';
    expect(inquiryRequest.parse({ ...inquiry, source }).source).toBe('kontakt-om oss 2 x');
  });

  test.each(['kontakt-', 'kontakt- \n', 'kontakt', 'Kontakt-a', 'Chatbot', 'book-demo2', 'x kontakt-a'])(
    'source may not be %j',
    (source) => {
      expect(issuesOf({ source })).toEqual(['source: invalid_source']);
    },
  );

  test('source is at most 80 characters', () => {
    expect(issuesOf({ source: `kontakt-${'a '.repeat(35)}a` })).toEqual([]);
    expect(issuesOf({ source: `kontakt-${'a'.repeat(72)}` })).toEqual([]);
    expect(issuesOf({ source: `kontakt-${'a'.repeat(73)}` })).toEqual(['source: too_big']);
  });

  test('every wrong field of an inquiry has an issue', () => {
    expect(issuesOf({ name: '', email: 'x', topic: 1, message: 'a'.repeat(10_001), source: 'x' })).toEqual([
      'name: too_small',
      'email: invalid_email',
      'topic: invalid_type',
      'message: too_big',
      'source: invalid_source',
    ]);
  });

  test.each(SINGLE_LINES)('%s loses line breaks, controls and direction overrides', (field) => {
    const value = ' a\r\nBcc: b@c.no\u2028c\u0085\u0000\u001B\u007F\u202Ed\u2066\uD800 ';
    expect(inquiryRequest.parse({ ...inquiry, [field]: value })[field]).toBe('a Bcc: b@c.no c d\uFFFD');
  });

  test.each(['summary', 'message', 'contextSummary'] as const)(
    '%s keeps its lines and tabs, and loses other controls',
    (field) => {
      const value = '\n a\r\n\tb\rc\u2029d\u0000\u001B\u202E 👨‍👩‍👧 \n\n';
      expect(inquiryRequest.parse({ ...inquiry, [field]: value })[field]).toBe('a\n\tb\nc\nd 👨‍👩‍👧');
    },
  );

  test('lengths are counted after the clean-up', () => {
    expect(issuesOf({ name: ` ${'a'.repeat(120)}\r\n` })).toEqual([]);
  });

  test('unknown fields of an inquiry are dropped', () => {
    expect(inquiryRequest.parse({ ...inquiry, bcc: 'x@example.no' })).not.toHaveProperty('bcc');
  });

  test('the trap has no name that browsers and password managers fill in', () => {
    // Words by which Chromium, Firefox and password managers know a field, also inside of longer names.
    expect(TRAP).not.toMatch(
      /name|navn|mail|url|web|site|home|page|link|tel|phone|fax|mobil|addr|street|city|zip|post|state|country|land|comp|org|firm|user|login|pass|card|cc|code|kode|pin|otp|birth|date|title|search/i,
    );
  });
});
