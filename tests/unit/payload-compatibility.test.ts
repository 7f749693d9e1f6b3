import { describe, expect, test } from 'vitest';
import { z } from 'zod';

import { currentVersions } from '../../dev/descriptions.ts';
import { topic } from '../../lib/bus/catalog/topic.ts';
import type { Topic } from '../../lib/bus/catalog/topic.ts';
import { personal } from '../../lib/bus/catalog/values.ts';
import { breaksBetween } from '../../lib/elsewhere/catalog-description/payload-compatibility.ts';
import { updatedVersions } from '../../lib/elsewhere/catalog-description/payload-versions.ts';
import { jsonSchemaOf } from '../../lib/platform/json-schema.ts';

const schema = (payload: z.ZodType) => jsonSchemaOf(payload, 'draft-07');

/** What is told of a change: the field, what happened to it, and whom that breaks. */
function told(was: z.ZodType, is: z.ZodType): string[] {
  return breaksBetween(schema(was), schema(is)).map(
    ({ pointer, what, broken }) => `${pointer} ${what} (${broken})`,
  );
}

/** The same of a field `a`, which every payload here has. */
const toldOf = (was: z.ZodType, is: z.ZodType) => told(z.object({ a: was }), z.object({ a: is }));

const name = z.string();
const person = z.object({ name });

describe('a change that is compatible', () => {
  const kept = z.object({ name, state: z.enum(['open', 'done']) });
  test.each<[what: string, was: z.ZodType, is: z.ZodType]>([
    ['none at all', kept, kept],
    ['a new optional field', kept, kept.extend({ nickname: name.max(3).optional() })],
    [
      'a new optional field deep down',
      z.object({ of: z.array(person) }),
      z.object({ of: z.array(person.extend({ age: z.int().optional() })) }),
    ],
    ['a first bound that no list comes near', z.array(name), z.array(name).max(10_000)],
    ['a description', person, z.object({ name: name.meta({ description: 'Of a person.', title: 'Name' }) })],
    ['a mark that a field is personal', person, z.object({ name: personal(name) })],
    ['another order of fields and values', kept, z.object({ state: z.enum(['done', 'open']), name })],
    ['another order of alternatives', z.union([name, z.int()]), z.union([z.int(), name])],
  ])('a change that is %s is compatible', (_, was, is) => {
    expect(told(was, is)).toEqual([]);
  });
});

describe('a change that breaks subscribers', () => {
  test.each<[was: z.ZodType, is: z.ZodType, told: string]>([
    [name, z.undefined().optional(), '/a was removed'],
    [name, name.optional(), '/a is no longer required'],
    [name, name.nullable(), '/a may now be null'],
    [z.int(), z.number(), '/a is now number, was integer'],
    [name, z.unknown(), '/a is now of any type, was string'],
    [z.enum(['x']), z.enum(['x', 'y']), '/a may now be "y"'],
    [z.literal('x'), z.enum(['x', 'y']), '/a may now be "y"'],
    [z.enum(['x']), name, '/a may now have any value'],
    [z.int(), z.union([z.int(), name]), '/a may now be string'],
    [name.min(2), name.min(1), '/a has minLength 1, had 2'],
    [name.max(2), name.max(3), '/a has maxLength 3, had 2'],
    [name.max(2), name, '/a has maxLength none, had 2'],
    [z.int().min(0), z.int(), '/a has minimum none, had 0'],
    [z.int().max(9), z.int().max(10), '/a has maximum 10, had 9'],
    [z.array(name).min(1), z.array(name), '/a has minItems none, had 1'],
    [z.array(name).max(2), z.array(name).max(3), '/a has maxItems 3, had 2'],
    [z.number().gt(1), z.number().gt(0), '/a has exclusiveMinimum 0, had 1'],
    [z.number().lt(1), z.number().lt(2), '/a has exclusiveMaximum 2, had 1'],
    [z.number().multipleOf(2), z.number(), '/a no longer has multipleOf 2'],
    [z.record(name.max(2), name), z.record(name.max(3), name), '/a/* has maxLength 3, had 2'],
    [z.iso.date(), name, '/a no longer has format "date"'],
    [name.regex(/^x/), name, '/a no longer has pattern "^x"'],
    [z.array(z.enum(['x'])), z.array(z.enum(['x', 'y'])), '/a/* may now be "y"'],
    [z.record(name, z.int()), z.record(name, z.number()), '/a/* is now number, was integer'],
    [z.strictObject({}), z.looseObject({}), '/a/* is now accepted'],
    [person, z.object({ name: name.optional() }), '/a/name is no longer required'],
  ])('a change that breaks subscribers is found (%#)', (was, is, what) => {
    const [before, after] = [
      z.object({ a: was }),
      what === '/a was removed' ? z.object({}) : z.object({ a: is }),
    ];
    expect(told(before, after)).toEqual([`${what} (subscribers)`]);
  });

  test('a change that breaks subscribers breaks stored events the other way round', () => {
    expect(toldOf(z.number(), z.int())).toEqual(['/a is now integer, was number (stored events)']);
    expect(toldOf(z.enum(['x', 'y']), z.enum(['x']))).toEqual(['/a may no longer be "y" (stored events)']);
    expect(toldOf(name, name.max(2))).toEqual(['/a has maxLength 2, had none (stored events)']);
    expect(toldOf(name.min(1), name.min(2))).toEqual(['/a has minLength 2, had 1 (stored events)']);
    expect(toldOf(name.nullable(), name)).toEqual(['/a may no longer be null (stored events)']);
    expect(toldOf(name, z.enum(['x']))).toEqual(['/a must now be one of "x" (stored events)']);
    expect(toldOf(name, z.iso.date())).toEqual(['/a now has format "date" (stored events)']);
    expect(toldOf(z.looseObject({}), z.strictObject({}))).toEqual([
      '/a/* is no longer accepted (stored events)',
    ]);
  });
});

describe('a change that breaks stored events', () => {
  test('a field that is or becomes required breaks stored events', () => {
    expect(told(z.object({}), person)).toEqual(['/name is new and required (stored events)']);
    expect(told(person.partial(), person)).toEqual(['/name is now required (stored events)']);
  });

  test('a rule for a field that had none breaks stored events', () => {
    expect(told(z.looseObject({}), z.looseObject({ name: name.optional() }))).toEqual([
      '/name now has a rule, had none of its own (stored events)',
    ]);
  });
});

describe('a change that breaks both', () => {
  const both = (what: string) => [`${what} (subscribers)`, `${what} (stored events)`];
  test.each<[was: z.ZodType, is: z.ZodType, told: string[]]>([
    [name, z.int(), both('/a is now integer, was string')],
    [z.iso.date(), z.uuid(), both('/a has format "uuid", had "date"')],
    [
      z.enum(['x']),
      z.enum(['y']),
      ['/a may now be "y" (subscribers)', '/a may no longer be "x" (stored events)'],
    ],
    [z.tuple([name]), z.tuple([z.int()]), both('/a has another items, which has no rule of comparison yet')],
  ])('a change that breaks both is reported for both (%#)', (was, is, expected) => {
    expect(toldOf(was, is)).toEqual(expected);
  });

  test('a change under a field with an escaped name is found', () => {
    expect(told(z.object({ 'a/b~c': name }), z.object({ 'a/b~c': z.int() }))[0]).toMatch(/^\/a~1b~0c /);
  });

  test('a change is not hidden by a field with the name of an annotation', () => {
    expect(told(z.object({ title: name }), z.object({}))).toEqual(['/title was removed (subscribers)']);
    expect(
      told(z.object({ of: z.object({ title: name }) }), z.object({ of: z.object({ title: z.int() }) }))[0],
    ).toMatch(/^\/of\/title is now integer/);
  });
});

describe('the kept versions', () => {
  const entry = (payload: z.ZodType, version = 1): Topic =>
    topic({
      producer: 'payments',
      subscribers: ['ledger', 'audit'],
      description: 'Something happened.',
      payload,
      example: {},
      version,
      listed: false,
    });
  const kept = { happened: { 1: schema(person) } };
  const update = (row: Topic, known = kept) => updatedVersions(known, { happened: row });

  test('the kept versions take in a new topic', () => {
    expect(updatedVersions({}, { happened: entry(person) })).toEqual({ versions: kept, breaks: [] });
  });

  test('the kept versions take in an optional field, which is promised from then on', () => {
    const { versions, breaks } = update(entry(person.extend({ age: z.int().optional() })));
    expect(breaks).toEqual([]);
    expect(updatedVersions(versions, { happened: entry(person) }).breaks[0]?.message).toContain(
      '/age was removed',
    );
  });

  test('the kept versions refuse a break, and say what broke, for whom and what to do', () => {
    const { versions, breaks } = update(entry(z.object({ name: z.int() })));
    expect(versions).toEqual(kept);
    expect(breaks.map(({ message }) => message)).toEqual([
      `The payload of happened changed in a way that version 1 does not allow:
  /name is now integer, was string: breaks its subscribers (ledger, audit), which were written for the older payload.
  /name is now integer, was string: breaks stored events, which may be replayed, and producers that still run the older code.
  Undo the change (only optional fields may be added), or set version: 2 in its catalog row, keep the
  payload as it was under earlier: { 1: … }, and make its subscribers read both versions.`,
    ]);
  });

  test('the kept versions take in any change as the next version', () => {
    const { versions, breaks } = update({ ...entry(z.object({ name: z.int() }), 2), earlier: { 1: person } });
    expect(breaks).toEqual([]);
    expect(versions).toEqual({ happened: { 1: schema(person), 2: schema(z.object({ name: z.int() })) } });
  });

  test.for<[what: string, earlier: Topic['earlier'], said: string]>([
    ['without the payload of the version before', {}, 'add earlier: { 1: … }'],
    ['with another payload of the version before', { 1: z.object({ name: z.int() }) }, 'another payload'],
    ['with a version that never was', { 1: person, 7: person }, '7: … }, which is no earlier version'],
  ])('the kept versions refuse a next version %s', ([, earlier, said]) => {
    const { versions, breaks } = update({
      ...entry(z.object({ name: z.int() }), 2),
      ...(earlier && { earlier }),
    });
    expect(breaks[0]?.message).toContain(said);
    expect(versions).toEqual(kept);
  });

  test('the kept versions refuse a version that skips one or goes back', () => {
    expect(update(entry(person, 3)).breaks[0]?.message).toContain('Set version: 2.');
    const two = { happened: { 1: schema(person), 2: schema(person) } };
    expect(update(entry(person, 1), two).breaks[0]?.message).toContain('went back from version 2 to 1');
  });

  test('the kept versions refuse to lose a topic', () => {
    const { versions, breaks } = updatedVersions(kept, {});
    expect(versions).toEqual(kept);
    expect(breaks[0]?.message).toContain('happened is no longer in the catalog');
  });
});

test('every payload of the catalog is compatible with its version', () => {
  const { breaks } = currentVersions();
  expect(breaks.map(({ message }) => message).join('\n\n')).toBe('');
});
