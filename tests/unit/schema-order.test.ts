import { describe, expect, test } from 'vitest';

import { catalog, topics } from '../../lib/bus/catalog/catalog.ts';
import { hidePersonalData } from '../../lib/bus/catalog/personal-data.ts';
import { inSchemaOrder } from '../../lib/bus/catalog/schema-order.ts';
import { subjectOf } from '../../lib/bus/catalog/subject.ts';
import { payloadOf } from '../support/bus.ts';

/** As `jsonb` returns an object: the shorter key first, and keys of one length by the alphabet. */
function asStored(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(asStored);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).toSorted(
    ([one], [other]) => one.length - other.length || (one < other ? -1 : 1),
  );
  return Object.fromEntries(entries.map(([key, inner]) => [key, asStored(inner)]));
}

const EXAMPLES = topics().map(([topic, { payload, example }]) => {
  const stored = asStored(example);
  // Zod writes the fields that a schema names in the schema's order.
  return { topic, stored, declared: payload.parse(stored) };
});

describe('the order of a payload’s fields', () => {
  test.each(EXAMPLES)('is that of the schema: $topic', ({ topic, stored, declared }) => {
    expect(JSON.stringify(inSchemaOrder(topic, stored, 1))).toBe(JSON.stringify(declared));
  });

  test('is that of the schema where personal data is hidden', () => {
    const payload = payloadOf('user.profile.updated', { name: 'Kari', email: 'kari@example.no' });
    const { payload: shown } = hidePersonalData('user.profile.updated', asStored(payload), 1);
    const declared = catalog['user.profile.updated'].payload.parse(payload);
    expect(Object.keys(Object(shown))).toEqual(Object.keys(declared));
  });

  test('has the fields that the schema does not name at its end', () => {
    const stored = asStored({ ...payloadOf('payment.captured'), a: 1, zz: 2 });
    expect(Object.keys(inSchemaOrder('payment.captured', stored, 1) as object).slice(-2)).toEqual([
      'a',
      'zz',
    ]);
  });

  test('stays as it is in a topic or a version that the catalog does not know', () => {
    const stored = { b: 1, a: 2 };
    expect(inSchemaOrder('payment.forgotten', stored, 1)).toBe(stored);
    expect(inSchemaOrder('payment.captured', stored, 99)).toBe(stored);
  });
});

describe('the subject of an event', () => {
  test.each([
    ['invoice.issued', /^invoice /],
    ['payment.captured', /^intent /],
    ['payout.account.verified', /^account /],
    ['clock.invoice_run.due', /^invoice run /],
    ['booking.created', /^booking /],
    ['tenant.suspended', /^tenant /],
  ] as const)('of %s is not the tenant unless there is nothing else', (topic, subject) => {
    expect(subjectOf(topic, asStored(payloadOf(topic)), 1)).toMatch(subject);
  });
});
