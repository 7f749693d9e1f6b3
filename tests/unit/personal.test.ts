import { describe, expect, test } from 'vitest';
import { z } from 'zod';

import { catalog } from '../../lib/catalog/catalog.ts';
import type { TopicName } from '../../lib/catalog/catalog.ts';
import {
  hidePersonalData,
  maskPersonalData,
  personalTexts,
  withoutPersonalData,
} from '../../lib/catalog/personal.ts';
import { subjectOf } from '../../lib/catalog/subject.ts';
import { payloadOf } from '../support/bus.ts';
import { cpuMs } from '../support/cpu.ts';

/** A JSON Schema as far as it is walked here. */
interface Schema {
  readonly type?: string;
  readonly format?: string;
  readonly personal?: boolean;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
}

const CANARY = /kanarifugl/i;

/** The example, with a canary in every field that the schema marks, also those that the example leaves out. */
function withCanaries(schema: Schema, example: unknown): unknown {
  if (schema.personal) return canary(schema);
  if (schema.items) {
    const items = Array.isArray(example) && example.length > 0 ? example : [undefined];
    return items.map((item) => withCanaries(schema.items!, item));
  }
  if (!schema.properties) return example;
  const known = typeof example === 'object' && example !== null ? example : {};
  const marked = Object.entries(schema.properties).map(([name, inner]) => [
    name,
    withCanaries(inner, Reflect.get(known, name)),
  ]);
  return Object.fromEntries(marked.filter(([, value]) => value !== undefined));
}

function canary({ type, format }: Schema): unknown {
  if (type === 'object') return { deep: [{ er: 'Kanarifugl i buret' }] };
  return format === 'email' ? 'kanarifugl@bærum.example.no' : 'Kanarifugl Æsdal';
}

const schemaOf = (topic: TopicName) =>
  z.toJSONSchema(catalog[topic].payload, { io: 'input', unrepresentable: 'any' }) as Schema;

const TOPICS = Object.keys(catalog) as TopicName[];

const PERSONAL_TOPICS = TOPICS.filter((topic) => JSON.stringify(schemaOf(topic)).includes('"personal":true'));

describe('what the schema marks as personal', () => {
  test('is marked in the topics that carry it', () => {
    expect(PERSONAL_TOPICS.length).toBeGreaterThan(60);
    expect(PERSONAL_TOPICS).toContain('inquiry.submitted');
    expect(PERSONAL_TOPICS).toContain('webhook.cardpayments.received');
  });

  test.each(PERSONAL_TOPICS)('is hidden: %s', (topic) => {
    const payload = withCanaries(schemaOf(topic), catalog[topic].example);
    expect(catalog[topic].payload.safeParse(payload).error).toBeUndefined();
    const { payload: shown, hidden, isValid } = hidePersonalData(topic, payload);
    expect(isValid).toBe(true);
    expect(JSON.stringify(payload)).toMatch(CANARY);
    expect(JSON.stringify(shown)).not.toMatch(CANARY);
    expect(hidden.length).toBeGreaterThan(0);
    expect(JSON.stringify(withoutPersonalData(topic, payload as object))).not.toMatch(CANARY);
    expect(subjectOf(topic, payload) ?? '').not.toMatch(CANARY);
    const error = `cannot take ${personalTexts(topic, payload).join(', ')}`;
    expect(error).toMatch(CANARY);
    expect(maskPersonalData(error, personalTexts(topic, payload))).not.toMatch(CANARY);
  });

  test.each(TOPICS)('is all that is hidden: %s', (topic) => {
    const example: object = catalog[topic].example;
    const { payload, hidden } = hidePersonalData(topic, example);
    const marked = new Set(hidden.map(({ pointer }) => pointer.split('/')[1]));
    const kept = Object.entries(example).filter(([name]) => !marked.has(name));
    expect(payload).toMatchObject(Object.fromEntries(kept));
  });
});

describe('what is hidden', () => {
  test('is told by its place, and by what it is where the schema says so', () => {
    const { payload, hidden } = hidePersonalData(
      'user.profile.updated',
      payloadOf('user.profile.updated', { name: 'Kari', phone: '40000456', email: 'kari@example.no' }),
    );
    expect(payload).toMatchObject({ name: '[hidden]', phone: '[hidden]', email: '[hidden: e-mail]' });
    expect(hidden.toSorted((one, other) => one.pointer.localeCompare(other.pointer))).toEqual([
      { pointer: '/email', kind: 'e-mail' },
      { pointer: '/name', kind: null },
      { pointer: '/phone', kind: null },
    ]);
  });

  test('is a whole webhook’s body, whatever is in it', () => {
    const { payload, hidden } = hidePersonalData('webhook.cardpayments.received', {
      eventId: 'evt_1',
      eventType: null,
      body: { customer: { name: 'Kari' } },
    });
    expect(payload).toEqual({ eventId: 'evt_1', eventType: null, body: '[hidden]' });
    expect(hidden).toEqual([{ pointer: '/body', kind: null }]);
  });

  test('is also what the schema does not know, though the payload fits', () => {
    const { payload, isValid } = hidePersonalData(
      'payment.captured',
      payloadOf('payment.captured', { payer: 'Kari' }),
    );
    expect(isValid).toBe(true);
    expect(payload).toMatchObject({ payer: '[hidden]' });
  });

  test.each(['constructor', 'toString', 'valueOf', 'hasOwnProperty', '__proto__'])(
    'is also what the schema does not know under the name %s, which every object has',
    (name) => {
      const written = JSON.stringify(payloadOf('payment.captured')).replace('{', `{"${name}":"Kari",`);
      const { payload } = hidePersonalData('payment.captured', JSON.parse(written));
      expect(JSON.stringify(payload)).not.toContain('Kari');
    },
  );
});

describe('a payload that does not fit its schema', () => {
  const misfit = {
    bookingId: 'bkg_48213',
    id: '019a3c1e-9f00-7000-8000-0123456789ab',
    createdAt: '2026-02-21T18:45:02Z',
    at: '2026-02-21T18:45:02.123+01:00',
    nothing: null,
    userId: 'Kari Lunde',
    tenantId: 'kari@example.no',
    personId: '01019012345',
    'a/b~c': 'Kari',
    amountMinor: 17,
    isGood: true,
    note: 'Kari ringte 2026-02-21T18:45:02Z',
    customer: { name: 'Kari', customerId: 'cus_1', tags: ['Kari', 'cus_2'] },
    list: [{ name: 'Kari', id: 'x' }, 'Kari', 4],
  };
  const { payload, hidden, isValid } = hidePersonalData('payment.captured', misfit);

  test('hides every leaf but ids, instants and nothing', () => {
    expect(isValid).toBe(false);
    expect(payload).toEqual({
      bookingId: 'bkg_48213',
      id: '019a3c1e-9f00-7000-8000-0123456789ab',
      createdAt: '2026-02-21T18:45:02Z',
      at: '2026-02-21T18:45:02.123+01:00',
      nothing: null,
      userId: '[hidden]',
      tenantId: '[hidden]',
      personId: '[hidden]',
      'a/b~c': '[hidden]',
      amountMinor: '[hidden]',
      isGood: '[hidden]',
      note: '[hidden]',
      customer: { name: '[hidden]', customerId: 'cus_1', tags: ['[hidden]', '[hidden]'] },
      list: [{ name: '[hidden]', id: 'x' }, '[hidden]', '[hidden]'],
    });
    expect(hidden.map(({ pointer }) => pointer)).toEqual(
      expect.arrayContaining(['/a~1b~0c', '/customer/tags/1', '/list/0/name', '/list/1']),
    );
  });

  test('names nothing in a list', () => {
    expect(subjectOf('payment.captured', misfit)).toBeNull();
  });

  test.each(['Kari', 17, null, true, ['Kari'], '2026-02-21T18:45:02Z'])(
    'may be no object at all: %j',
    (value) => {
      const result = hidePersonalData('payment.captured', value);
      expect(result.isValid).toBe(false);
      expect(JSON.stringify(result.payload)).not.toMatch(/Kari|17|true/);
    },
  );

  test('is one of a topic that the catalog does not have', () => {
    expect(hidePersonalData('toString', { name: 'Kari', id: 'x' })).toMatchObject({
      isValid: false,
      payload: { name: '[hidden]', id: 'x' },
    });
  });

  test('gives its texts, so that an error does not repeat them', () => {
    expect(maskPersonalData('no such Kari Lunde', personalTexts('payment.captured', misfit))).toBe(
      'no such [hidden]',
    );
  });
});

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
    ['several', 'a@b.no, c@d.no', '[hidden], [hidden]'],
  ])('loses %s, known or not', (_, message, masked) => {
    expect(maskPersonalData(message, [])).toBe(masked);
  });

  test.each([
    'no event 019a3c1e-9f00-7000-8000-0123456789ab',
    'no event 01901901-2345-7000-8000-912345678901',
    'no booking bkg_48213',
    'no intent pi_91234567',
    'short by 62500',
    'since 1771581600',
    'closed since 2026-02-21T18:45:02Z',
    'HTTP 503 after 10000 ms',
    'connect ECONNREFUSED 10.0.0.7:5432',
    'node@22 is no address',
  ])('keeps what is no personal data: %s', (message) => {
    expect(maskPersonalData(message, [])).toBe(message);
  });

  test('loses what is known wherever it stands, the longer text first', () => {
    expect(
      maskPersonalData('Kari Lunde (Kari) of "Lunde & sønn"', ['Kari Lunde', 'Lunde & sønn', 'Kari']),
    ).toBe('[hidden] ([hidden]) of "[hidden]"');
  });

  test('keeps words that hold a very short text by chance', () => {
    expect(maskPersonalData('not here', ['no', 'e'])).toBe('not here');
  });

  test('loses a known text also as JSON writes it', () => {
    const purpose = 'Bursdag for "Kari"\nring Per';
    const payload = payloadOf('booking.created', { purpose });
    const masked = maskPersonalData(
      `cannot store ${JSON.stringify(payload)}`,
      personalTexts('booking.created', payload),
    );
    expect(masked).not.toMatch(/Kari|Per/);
  });

  test('is no pattern: what is known may hold anything', () => {
    expect(maskPersonalData('a.*b (x) $& a.*b', ['a.*b'])).toBe('[hidden] (x) $& [hidden]');
  });

  test('takes no longer for a text that was made to be slow', () => {
    const tookMs = cpuMs(() => {
      maskPersonalData('a.'.repeat(1000), []);
      maskPersonalData(`${'a'.repeat(1000)}@${'b.'.repeat(500)}`, []);
      maskPersonalData(`+${'1 '.repeat(1000)}`, []);
    });
    expect(tookMs).toBeLessThan(500);
  });
});

describe('what an event is about', () => {
  test.each<[TopicName, object, string]>([
    ['payment.captured', {}, ''],
    ['booking.created', { bookingId: 'bkg_1' }, 'booking bkg_1'],
    ['inquiry.submitted', { inquiryId: 'inq_1' }, 'inquiry inq_1'],
    ['webhook.cardpayments.received', { eventId: 'evt_1' }, 'event evt_1'],
  ])('%s', (topic, fields, subject) => {
    expect(subjectOf(topic, payloadOf(topic, fields))).toContain(subject);
  });

  test('is in words of its own', () => {
    expect(subjectOf('booking.assigned', payloadOf('booking.assigned', { bookingId: 'bkg_1' }))).toBe(
      'booking bkg_1',
    );
    expect(subjectOf('cron.daily.06_00', catalog['cron.daily.06_00'].example)).toBeNull();
  });
});
