import { describe, expect, test } from 'vitest';

import { catalog } from '../../lib/bus/catalog/catalog.ts';
import type { TopicName } from '../../lib/bus/catalog/catalog.ts';
import { identifiersOf } from '../../lib/components/identifiers/identifier.ts';
import { hidePersonalData, personalTexts, withoutPersonalData } from '../../lib/bus/catalog/personal-data.ts';
import { maskPersonalData } from '../../lib/platform/masking/personal.ts';
import { subjectOf } from '../../lib/bus/catalog/subject.ts';
import { payloadOf } from '../support/bus.ts';
import { CANARY, PERSONAL_TOPICS, TOPICS, canariesOf, withPersonalData } from '../support/personal-data.ts';

describe('what the schema marks as personal', () => {
  test('personal data is marked in the topics that carry it', () => {
    expect(PERSONAL_TOPICS.length).toBeGreaterThan(60);
    expect(PERSONAL_TOPICS).toContain('inquiry.submitted');
    expect(PERSONAL_TOPICS).toContain('webhook.cardpayments.received');
  });

  test.each(PERSONAL_TOPICS)('every marked field is hidden: %s', (topic) => {
    const payload = canariesOf(topic);
    expect(catalog[topic].payload.safeParse(payload).error).toBeUndefined();
    const { payload: shown, hidden, isValid } = hidePersonalData(topic, payload, 1);
    expect(isValid).toBe(true);
    expect(JSON.stringify(payload)).toMatch(CANARY);
    expect(JSON.stringify(shown)).not.toMatch(CANARY);
    expect(hidden.length).toBeGreaterThan(0);
    expect(JSON.stringify(withoutPersonalData(topic, payload))).not.toMatch(CANARY);
    expect(subjectOf(topic, payload, 1) ?? '').not.toMatch(CANARY);
    const error = `cannot take ${personalTexts(topic, payload, 1).join(', ')}`;
    expect(error).toMatch(CANARY);
    expect(maskPersonalData(error, personalTexts(topic, payload, 1))).not.toMatch(CANARY);
  });

  test.each(TOPICS)('no unmarked field is hidden: %s', (topic) => {
    const example: object = catalog[topic].example;
    const { payload, hidden } = hidePersonalData(topic, example, 1);
    const marked = new Set(hidden.map(({ pointer }) => pointer.split('/')[1]));
    const kept = Object.entries(example).filter(([name]) => !marked.has(name));
    expect(payload).toMatchObject(Object.fromEntries(kept));
  });
});

describe('what is hidden', () => {
  test('a hidden value is named by its pointer, and by its kind where the schema has one', () => {
    const { payload, hidden } = hidePersonalData(
      'user.profile.updated',
      payloadOf('user.profile.updated', { name: 'Kari', phone: '40000456', email: 'kari@example.no' }),
      1,
    );
    expect(payload).toMatchObject({ name: '[hidden]', phone: '[hidden]', email: '[hidden: e-mail]' });
    expect(hidden.toSorted((one, other) => one.pointer.localeCompare(other.pointer))).toEqual([
      { pointer: '/email', kind: 'e-mail' },
      { pointer: '/name', kind: null },
      { pointer: '/phone', kind: null },
    ]);
  });

  test('the whole body of a webhook is hidden', () => {
    const { payload, hidden } = hidePersonalData(
      'webhook.cardpayments.received',
      {
        eventId: 'evt_1',
        eventType: null,
        body: { customer: { name: 'Kari' } },
      },
      1,
    );
    expect(payload).toEqual({ eventId: 'evt_1', eventType: null, body: '[hidden]' });
    expect(hidden).toEqual([{ pointer: '/body', kind: null }]);
  });

  test('a field that the schema does not know is hidden, though the payload fits', () => {
    const { payload, isValid } = hidePersonalData(
      'payment.captured',
      payloadOf('payment.captured', { payer: 'Kari' }),
      1,
    );
    expect(isValid).toBe(true);
    expect(payload).toEqual({ ...catalog['payment.captured'].example, '[hidden]': '[hidden]' });
  });

  test.each(['constructor', 'toString', 'valueOf', 'hasOwnProperty', '__proto__'])(
    'an unknown field is hidden under the name %s, which every object has',
    (name) => {
      const written = JSON.stringify(payloadOf('payment.captured')).replace('{', `{"${name}":"Kari",`);
      const { payload } = hidePersonalData('payment.captured', JSON.parse(written), 1);
      expect(JSON.stringify(payload)).not.toContain('Kari');
    },
  );
});

describe('a payload that does not fit its schema', () => {
  const misfit = {
    intentId: 'pi_3QxSolvik48213',
    bookingId: 'Kari Lunde',
    provider: 'Kari',
    amountMinor: 17.5,
    currency: 'NOK',
    providerEventId: ['evt_1'],
    nationalId: '010190-12345',
    personId: '01019012345',
    customer: { name: 'Kari', customerId: 'cus_1' },
    at: '2026-02-21T18:45:02Z',
    'Kari/Lunde': 4,
  };
  const { payload, hidden, isValid } = hidePersonalData('payment.captured', misfit, 1);

  test('a payload that does not fit shows the unmarked fields that do', () => {
    expect(isValid).toBe(false);
    expect(payload).toEqual({
      intentId: 'pi_3QxSolvik48213',
      bookingId: '[hidden]',
      provider: '[hidden]',
      amountMinor: '[hidden]',
      currency: 'NOK',
      providerEventId: '[hidden]',
      '[hidden]': '[hidden]',
    });
    expect(hidden.map(({ pointer }) => pointer)).toContain('/[hidden]');
  });

  test('a list where an object is expected is hidden as a whole', () => {
    expect(subjectOf('payment.captured', misfit, 1)).toBeNull();
  });

  test.each(['Kari', 17, true, ['Kari'], '2026-02-21T18:45:02Z'])(
    'the payload %j, which is no object, is hidden',
    (value) => {
      const result = hidePersonalData('payment.captured', value, 1);
      expect(result).toMatchObject({ isValid: false, payload: '[hidden]' });
    },
  );

  test('the texts and free keys of a payload that does not fit are masked in errors', () => {
    const masked = maskPersonalData(
      'no such Kari Lunde (010190-12345)',
      personalTexts('payment.captured', misfit, 1),
    );
    expect(masked).toBe('no such [hidden] ([hidden])');
  });
});

describe('a payload that this release does not know', () => {
  const payload = payloadOf('payment.captured', { payer: 'Kari Lunde', payerId: 'kari' });

  test.each([
    ['a newer version', 'payment.captured', 2],
    ['a topic that is not in the catalog', 'payment.chargeback.opened', 1],
    ['a name that every object has', 'toString', 1],
  ])('an unknown payload is hidden as a whole: %s', (_, topic, version) => {
    expect(hidePersonalData(topic, payload, version)).toEqual({
      payload: '[hidden]',
      hidden: [{ pointer: '', kind: null }],
      isValid: false,
    });
    expect(subjectOf(topic, payload, version)).toBeNull();
    expect(maskPersonalData('no such payer: Lunde', personalTexts(topic, payload, version))).toBe(
      'no such payer: [hidden]',
    );
  });

  test('an older payload is shown by today’s schema', () => {
    expect(hidePersonalData('payment.captured', payload, 0).payload).toEqual({
      ...catalog['payment.captured'].example,
      '[hidden]': '[hidden]',
    });
  });
});

describe('a code', () => {
  test.each([
    'Kari Lunde',
    'Kari\u00a0Lunde',
    'kari@example.no',
    '01019012345',
    '010190-12345',
    '01.01.90.12345',
    '０１０１９０12345',
    'fnr:01019012345',
    '+4791234567',
    'tel:+47-912-34-567',
    'Kari%20Lunde',
    'declined: see the note',
  ])('a code that looks like something else is hidden: %s', (bookingId) => {
    const payload = payloadOf('booking.assigned', { bookingId });
    expect(hidePersonalData('booking.assigned', payload, 1)).toMatchObject({
      isValid: true,
      payload: { bookingId: '[hidden]' },
    });
    expect(withoutPersonalData('booking.assigned', payload)).not.toHaveProperty('bookingId');
  });

  test.each([
    'bkg_48213',
    '2026/1182-3',
    'REFUNDED:bkg-48190-1:10026640221',
    '019a3c1e-9f00-7000-8000-0123456789ab',
    '4791234567',
    'org:999000111',
    'q+4791234567',
  ])('a code is shown: %s', (bookingId) => {
    const payload = payloadOf('booking.assigned', { bookingId });
    expect(hidePersonalData('booking.assigned', payload, 1)).toMatchObject({ payload: { bookingId } });
    expect(withoutPersonalData('booking.assigned', payload)).toMatchObject({ bookingId });
  });
});

describe('what is kept without personal data', () => {
  test('a copy without personal data leaves out fields that the schema does not know', () => {
    const payload = payloadOf('payment.captured', { payer: 'Kari', payerRef: 'usr_1', constructor: 'Kari' });
    expect(withoutPersonalData('payment.captured', payload)).toEqual(catalog['payment.captured'].example);
  });

  test.each<[TopicName, object]>([
    ['ledger.entry.posted', { lines: [{ account: '1920', side: 'debit', amountMinor: 1, note: 'Kari' }] }],
    ['season.application.submitted', { wishes: [{ resourceId: 'res_1', wishedBy: 'Kari' }] }],
  ])('a copy without personal data leaves out nested fields, too: %s', (topic, fields) => {
    expect(JSON.stringify(withoutPersonalData(topic, payloadOf(topic, fields)))).not.toContain('Kari');
  });

  test('a copy without personal data is empty for another shape than the schema’s', () => {
    expect(
      withoutPersonalData('payment.captured', { bookingId: { name: 'Kari' }, currency: ['Kari'] }),
    ).toEqual({});
  });
});

describe('what an event is about', () => {
  test.each<[TopicName, object, string]>([
    ['payment.captured', {}, ''],
    ['booking.created', { bookingId: 'bkg_1' }, 'booking bkg_1'],
    ['inquiry.submitted', { inquiryId: 'inq_1' }, 'inquiry inq_1'],
    ['webhook.cardpayments.received', { eventId: 'evt_1' }, 'event evt_1'],
  ])('the subject of %s is shown', (topic, fields, subject) => {
    expect(subjectOf(topic, payloadOf(topic, fields), 1)).toContain(subject);
  });

  test('the subject of a webhook is in words of its own', () => {
    expect(subjectOf('booking.assigned', payloadOf('booking.assigned', { bookingId: 'bkg_1' }), 1)).toBe(
      'booking bkg_1',
    );
    expect(subjectOf('cron.daily.06_00', catalog['cron.daily.06_00'].example, 1)).toBeNull();
  });
});

describe('what an event is found by', () => {
  const KEYS = { correlationId: null, causationId: null, orderingKey: '', dedupeKey: null };
  const found = (topic: TopicName, payload: unknown) =>
    identifiersOf('an id', KEYS, { topic, payload, version: catalog[topic].version });

  test.each(PERSONAL_TOPICS)('is no personal text of %s, however much it looks like an id', (topic) => {
    const payload = withPersonalData(topic, ({ type }) =>
      type === 'object' ? { passport: 'CCC-1/2', deep: [{ note: 'CCC-1/2' }] } : 'CCC-1/2',
    );
    expect(JSON.stringify(payload)).toContain('CCC-1/2');
    expect(found(topic, payload)).not.toContain('CCC-1/2');
  });

  test('is nothing of a payload that this release does not know', () => {
    const topic = 'payment.captured';
    const { example: payload, version } = catalog[topic];
    expect(identifiersOf('an id', KEYS, { topic: 'of.tomorrow', payload, version })).toEqual(new Set());
    expect(identifiersOf('an id', KEYS, { topic, payload, version: version + 1 })).toEqual(new Set());
  });

  test('is each id that a provider’s body is declared to have, where it is a text', () => {
    const object = { id: 'pi_1', payment_intent: 'pi_2', charge: 'ch_3', customer: { id: 'cus_4' } };
    const body = { id: 'evt_5', data: { object }, request: { id: 'req_6' } };
    const card = { eventId: 'evt_5', eventType: 'x', body };
    expect([...found('webhook.cardpayments.received', card)].toSorted()).toEqual(
      ['ch_3', 'evt_5', 'pi_1', 'pi_2', 'req_6'].toSorted(),
    );
    const wallet = catalog['webhook.walletpayments.received'].example;
    expect(found('webhook.walletpayments.received', wallet)).toContain('bkg-48190-1');
  });
});
