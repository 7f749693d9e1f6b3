import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import * as z from 'zod';

import { catalog, topics } from '../../lib/bus/catalog/catalog.ts';
import type { TopicName } from '../../lib/bus/catalog/catalog.ts';
import { compile } from '../../lib/bus/catalog/marks.ts';
import { namingFields, topicsNamingNobody } from '../../lib/components/erasures/person.ts';
import { erasePersonalData, hidePersonalData } from '../../lib/bus/catalog/personal-data.ts';

const rows = topics();

describe('the catalog', () => {
  test('names a person in each topic with personal data, except for these', () => {
    expect(topicsNamingNobody()).toEqual([
      'payment.refund.requested',
      'payment.dispute.opened',
      'ledger.balance.adjusted',
      'resource.published',
      'resource.created',
      'resource.unpublished',
      'resource.maintenance.scheduled',
      'resource.damage.reported',
      'calendar.holidays.imported',
      'calendar.closure.announced',
      'thread.opened',
      'season.opened',
      'review.submitted',
      'review.reported',
      'intelligence.price.suggested',
      'intelligence.content.drafted',
      'webhook.cardpayments.received',
      'webhook.walletpayments.received',
      'inquiry.closed',
    ]);
  });

  test('names a person by a field that some payload has as a text', () => {
    for (const { topic, path } of namingFields()) {
      const [first = ''] = path.split('.');
      const { payload } = catalog[topic];
      const shape: Readonly<Record<string, unknown>> = payload.shape;
      expect(Object.hasOwn(shape, first), `${topic} ${path}`).toBe(true);
    }
  });

  test('lets every e-mail address of a payload name somebody', () => {
    const paths = new Set(namingFields().map(({ topic, path }) => `${topic} ${path}`));
    const mute = rows.flatMap(([topic, { payload }]) => {
      const rule = compile(payload);
      if (rule.is !== 'object') throw new TypeError(topic);
      return [...rule.fields].flatMap(([name, field]) =>
        field.is === 'hidden' && field.kind === 'e-mail' && !paths.has(`${topic} ${name}`)
          ? [`${topic} ${name}`]
          : [],
      );
    });
    expect(mute).toEqual([]);
  });
});

describe('an erased payload', () => {
  test.each(rows)('fits its schema, keeps its ids and holds no personal data: %s', (topic, row) => {
    const { payload, texts } = erasePersonalData(topic, row.example, row.version);
    expect(row.payload.safeParse(payload).error).toBeUndefined();
    expect(shown(topic, payload)).toEqual(shown(topic, row.example));
    for (const text of texts.filter((one) => /[ @]/.test(one)))
      expect(JSON.stringify(payload)).not.toContain(text);
  });

  test.each(rows)('is the same when it is erased again: %s', (topic, row) => {
    const { payload } = erasePersonalData(topic, row.example, row.version);
    expect(erasePersonalData(topic, payload, row.version)).toEqual({ payload, texts: [] });
  });

  test.each(rows)('fits its schema whatever the personal texts were: %s', (topic, row) => {
    fc.assert(
      fc.property(fc.string({ minLength: 1, maxLength: 40 }), (text) => {
        const filled = withTexts(topic, text);
        if (!row.payload.safeParse(filled).success) return;
        const { payload } = erasePersonalData(topic, filled, row.version);
        expect(row.payload.safeParse(payload).error).toBeUndefined();
      }),
      { numRuns: 20 },
    );
  });

  test('has a substitute in place of what its schema requires, and nothing in place of the rest', () => {
    const { payload, texts } = erasePersonalData(
      'user.profile.updated',
      { ...catalog['user.profile.updated'].example, unknown: 'Kari' },
      1,
    );
    expect(payload).toEqual({ userId: 'usr_3071', name: 'erased', changed: ['phone'] });
    expect(texts).toEqual(['Kari Lunde', '+47 400 00 123', 'kari.lunde@example.no', 'Kari']);
    expect(
      erasePersonalData('notification.bounced', catalog['notification.bounced'].example, 1).payload,
    ).toEqual({ ...catalog['notification.bounced'].example, bouncedEmail: 'erased@erased.invalid' });
  });

  test('loses an id that is no id but an e-mail address', () => {
    const payload = { ...catalog['mfa.completed'].example, userId: 'kari.lunde@example.no' };
    expect(erasePersonalData('mfa.completed', payload, 1).payload).toMatchObject({ userId: 'erased' });
  });

  test('of a version or a topic that this release does not know keeps only its ids and small numbers', () => {
    const payload = {
      bookingId: 'bkg_48213',
      name: 'Kari Lunde',
      phone: '+4740000123',
      national: '01017012345',
      digits: 1_017_012_345,
      stars: 4,
      'Kari Lunde': true,
      list: [{ note: 'hei', id: 'usr_3071' }],
    };
    const erased = {
      bookingId: 'bkg_48213',
      name: 'erased',
      phone: 'erased',
      national: 'erased',
      digits: 0,
      stars: 4,
      list: [{ note: 'erased', id: 'usr_3071' }],
    };
    expect(erasePersonalData('some.new.topic', payload, 1).payload).toEqual(erased);
    expect(erasePersonalData('booking.created', payload, 99).payload).toEqual(erased);
  });
});

/** The topic's example with this text in place of each personal one. */
function withTexts(topic: TopicName, text: string): unknown {
  const { example, version } = catalog[topic];
  const payload: unknown = structuredClone(example);
  for (const { pointer } of hidePersonalData(topic, example, version).hidden) {
    const names = pointer.split('/').slice(1);
    const last = names.pop()!;
    const holder = names.reduce<unknown>((inner, name) => held.parse(inner)[name], payload);
    const fields = held.parse(holder);
    if (typeof fields[last] === 'string') Object.assign(holder as object, { [last]: text });
  }
  return payload;
}

const held = z.custom<Record<string, unknown>>((value) => typeof value === 'object' && value !== null);

/** What of a payload everyone may see. */
function shown(topic: TopicName, payload: unknown): unknown {
  const { payload: hidden } = hidePersonalData(topic, payload, catalog[topic].version);
  return JSON.parse(JSON.stringify(hidden), (_, value: unknown) =>
    typeof value === 'string' && /^(\[hidden|erased)/.test(value) ? undefined : value,
  );
}
