import { describe, expect, test } from 'vitest';
import * as z from 'zod';

import { catalog, topics } from '../../lib/bus/catalog/catalog.ts';
import { compile } from '../../lib/bus/catalog/marks.ts';
import type { Rule } from '../../lib/bus/catalog/marks.ts';
import {
  code,
  email,
  freeText,
  id,
  instant,
  personal,
  personName,
  title,
} from '../../lib/bus/catalog/values.ts';
import { hidePersonalData } from '../../lib/bus/catalog/personal-data.ts';

const rows = topics();

/** A leaf of a payload's schema: where it stands, and what was decided. */
type Decision = [path: string, rule: Rule & { is: 'shown' | 'hidden' }];

function decisionsOf(rule: Rule, path: string): Decision[] {
  switch (rule.is) {
    case 'shown':
    case 'hidden':
      return [[path, rule]];
    case 'object':
      return [
        ...[...rule.fields].flatMap(([name, field]) => decisionsOf(field, `${path}.${name}`)),
        ...(rule.entries
          ? [
              ...decisionsOf(rule.entries.key, `${path}.<key>`),
              ...decisionsOf(rule.entries.value, `${path}.*`),
            ]
          : []),
      ];
    case 'list':
      return [...rule.items, ...(rule.rest ? [rule.rest] : [])].flatMap((item) =>
        decisionsOf(item, `${path}[]`),
      );
    case 'one of':
      return rule.options.flatMap((option) => decisionsOf(option.rule, path));
  }
}

/** Fields that nobody decided on, each with what to write. */
function undecided(schema: z.ZodType, path: string): string[] {
  return decisionsOf(compile(schema), path)
    .filter(([, rule]) => rule.is === 'hidden' && rule.because === 'undecided')
    .map(
      ([where]) =>
        `${where}: is it personal data? Write \`id\` or \`reference\` for an id, \`code(z.string())\` for a word that only ` +
        'machines write, an enum for a closed list, and `personal(z.string())` or `freeText` for all that a person typed ' +
        '(lib/bus/catalog/values.ts).',
    );
}

/** Names of fields that hold personal data whatever their type is. */
const PERSONAL_NAME =
  /^(name|.*Name|e?mail|.*Email|phone|.*Phone|.*address|(.*N|n)ationalId|ssn|.*(b|B)irth.*|subject|text|note|.*(m|M)essage|.*(c|C)omment|because|.*Because|description|title|headline|purpose|error|topic|persona|source)$/;

/** Fields that are told though their name says that they are personal, and that are no closed list. */
function misnamed(schema: z.ZodType, path: string): string[] {
  return decisionsOf(compile(schema), path)
    .filter(([where]) => PERSONAL_NAME.test(where.split('.').at(-1) ?? ''))
    .filter(([, rule]) => rule.is === 'shown' && rule.fits('kari'))
    .map(([where]) => where);
}

describe('every text in the payload of every topic', () => {
  test.each(rows)('every text of the payload is declared an id, a code or personal data: %s', (name, row) => {
    expect(undecided(row.payload, name)).toEqual([]);
  });

  test.each(rows)(
    'a text with the name of personal data is declared so, unless its values are listed: %s',
    (name, row) => {
      expect(misnamed(row.payload, name)).toEqual([]);
    },
  );

  test('nationalId has to be personal although its name ends like an id', () => {
    expect(misnamed(z.object({ payer: z.object({ nationalId: id }) }), 'some.topic')).toEqual([
      'some.topic.payer.nationalId',
    ]);
    expect(misnamed(z.object({ payer: z.object({ nationalId: personal(id) }) }), 'some.topic')).toEqual([]);
  });

  test.each([
    ['z.string()', z.string()],
    ['an optional one', z.string().optional()],
    ['a nullable one with a default', z.string().nullable().default('')],
    ['one with a pattern', z.string().regex(/^\d+$/)],
    ['an address', z.url()],
    ['an unmarked e-mail address', z.email()],
    ['one in a nested object', z.object({ inner: z.object({ deep: z.string() }) })],
    ['one in a list', z.array(z.string())],
    ['one in a list of objects', z.array(z.object({ note: z.string() }))],
    ['one in a tuple', z.tuple([z.int(), z.string()])],
    ['one at the end of a tuple', z.tuple([z.int()], z.string())],
    ['one under free keys', z.record(id, z.string())],
    ['a free key', z.record(z.string(), z.int())],
    ['one of several', z.union([z.int(), z.string()])],
    [
      'one of several objects',
      z.discriminatedUnion('kind', [z.object({ kind: z.literal('a'), b: z.string() })]),
    ],
    ['one that is transformed', z.string().transform((text) => text.length)],
    ['anything', z.unknown()],
    ['what comes later', z.lazy(() => z.string())],
    ['two at once', z.intersection(z.object({ a: z.string() }), z.object({ b: z.string() }))],
  ])('a text without a declaration is found, with what to write: %s', (_, schema) => {
    expect(undecided(z.object({ field: schema }), 'some.topic')).toEqual([
      expect.stringMatching(
        /^some\.topic\.field.*is it personal data\? Write `id`.*`personal\(z\.string\(\)\)`/,
      ),
    ]);
  });

  test('a text whose type leaves no room for words needs no declaration', () => {
    const closed = z.object({
      kind: z.enum(['a', 'b']),
      type: z.literal('c'),
      at: instant,
      day: z.iso.date(),
      key: z.uuid(),
      size: z.int().nullable(),
      isOn: z.boolean().optional(),
    });
    expect(undecided(closed, '')).toEqual([]);
  });

  test('a declaration holds through limits, wrappers and unions', () => {
    const decided = z.object({
      one: id.max(20).optional(),
      two: code(z.string()).nullable(),
      three: personName.optional(),
      four: personal(z.string().optional()),
      five: z.array(code(z.string().min(1))).readonly(),
      six: z.union([z.literal('none'), freeText]),
      seven: z.record(id, title),
      eight: email.default('a@b.no'),
    });
    expect(undecided(decided, '')).toEqual([]);
  });
});

describe('an inquiry', () => {
  test('an inquiry shows its id alone, and nothing that the visitor typed', () => {
    const { payload } = hidePersonalData('inquiry.submitted', catalog['inquiry.submitted'].example, 1);
    expect(payload).toEqual({
      inquiryId: 'inq_5521',
      source: '[hidden]',
      persona: '[hidden]',
      organization: '[hidden]',
      topic: '[hidden]',
      name: '[hidden]',
      email: '[hidden]',
      phone: '[hidden]',
    });
  });
});
