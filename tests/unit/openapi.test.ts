import { readdirSync, readFileSync } from 'node:fs';

import { Validator } from '@seriousme/openapi-schema-validator';
import { describe, expect, test } from 'vitest';

import { descriptions, documentUrl } from '../../dev/descriptions.ts';
import { problemCodes } from '../../lib/platform/http/problem-codes.ts';
import { VERSION } from '../../lib/platform/version.ts';
import packageJson from '../../package.json' with { type: 'json' };
import vercelJson from '../../vercel.json' with { type: 'json' };
import { AnswerJudge } from '../support/answer-judge.ts';
import { exchangesOf, operationsOf } from '../support/contract.ts';
import type { OpenApiDocument } from '../support/contract.ts';
import { operatorRoutes } from '../support/operator-function.ts';

const text = readFileSync(documentUrl('openapi'), 'utf8');
const document = JSON.parse(text) as OpenApiDocument;
const operations = operationsOf(document);
const judge = new AnswerJudge(document);

const { texts } = await descriptions();

test.each(texts)('docs/%s.json is current (else run: npm run descriptions)', (name, current) => {
  // Told apart here, since nobody reads a difference of half a megabyte.
  const isCurrent = readFileSync(documentUrl(name), 'utf8') === current;
  expect(isCurrent).toBe(true);
});

describe('docs/openapi.json', () => {
  test('the document is valid OpenAPI 3.1 to an independent validator', async () => {
    const validator = new Validator();
    const { valid, errors } = await validator.validate(JSON.parse(text) as Record<string, unknown>);
    expect(errors ?? []).toEqual([]);
    expect(valid).toBe(true);
    expect(validator.version).toBe('3.1');
  });

  test('the validator refuses an answer without a description', async () => {
    const broken = text.replace('"description": "The server runs."', '"summary": "The server runs."');
    expect((await new Validator().validate(JSON.parse(broken) as Record<string, unknown>)).valid).toBe(false);
  });

  test('every reference of the document leads somewhere', () => {
    const references = Array.from(text.matchAll(/"\$ref": "#\/([^"]+)"/g), ([, path]) => path!);
    expect(references.length).toBeGreaterThan(100);
    for (const path of references) {
      const found = path
        .split('/')
        .reduce<unknown>((at, step) => (at as Record<string, unknown>)[step], document);
      expect([path, found]).not.toEqual([path, undefined]);
    }
  });

  test('the document has the version of the package', () => {
    expect(VERSION).toBe(packageJson.version);
  });

  test('the document names each operation once', () => {
    const ids = operations.map(({ operationId }) => operationId);
    expect(new Set(ids).size).toBe(ids.length);
  });
});

describe('what is described', () => {
  const described = operations.map(({ method, path }) => `${method} ${path}`);

  test('the document describes every route of the operators’ functions, and no other', () => {
    const expected = operatorRoutes.map(({ method, path }) => `${method.toUpperCase()} ${path}`);
    const ofOperators = described.filter((line) => line.includes(' /platform/event-bus'));
    expect(ofOperators.toSorted()).toEqual(expected.toSorted());
  });

  test('the document’s paths lead to every file of api/ through vercel.json', () => {
    const files = readdirSync(new URL('../../api/', import.meta.url), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts'))
      .map((file) => `/api/${file.replace(/(\/index)?\.ts$/, '').replaceAll(/\[(\w+)\]/g, ':$1')}`);
    const led = operations.map(({ path }) => {
      const rewrite = vercelJson.rewrites.find(({ source }) =>
        new RegExp(`^${source.replaceAll(/:\w+/g, '[^/]+')}$`).test(path),
      );
      return rewrite?.destination ?? path;
    });
    expect([...new Set(led)].toSorted()).toEqual(files.toSorted());
  });

  test('the document lists every problem code at the operations that answer it', () => {
    const told = operations.flatMap(({ responses }) =>
      Object.values(responses).flatMap(({ content }) => {
        const { allOf } = (content?.['application/problem+json']?.schema ?? {}) as {
          allOf?: [object, { properties: { code: { enum: string[] } } }];
        };
        return allOf?.[1].properties.code.enum ?? [];
      }),
    );
    // Of every operation and of none, which the description of the document says; the last is the local server's.
    const everywhere = ['internal_error', 'method_not_allowed', 'misdirected_request'];
    expect([...new Set([...told, ...everywhere])].toSorted()).toEqual(Object.keys(problemCodes).toSorted());
  });
});

describe.each(operations)('$method $path', (operation) => {
  const exchanges = exchangesOf(operation);

  test('the operation has examples of different names', () => {
    const names = exchanges.map(({ name }) => name);
    expect(names.length).toBeGreaterThan(0);
    expect(new Set(names).size).toBe(names.length);
  });

  test('the operation has every parameter of its path, with a value in every example', () => {
    const inPath = Array.from(operation.path.matchAll(/\{(\w+)\}/g), ([, name]) => name!);
    const parameters = (operation.parameters ?? []).filter(({ in: place }) => place === 'path');
    expect(parameters.map(({ name }) => name)).toEqual(inPath);
    for (const { examples } of parameters) {
      expect(Object.keys(examples ?? {}).toSorted()).toEqual(exchanges.map(({ name }) => name).toSorted());
    }
  });

  test('the operation’s answers fit their schemas', () => {
    for (const { content = {} } of Object.values(operation.responses)) {
      for (const { schema, examples = {} } of Object.values(content)) {
        for (const [name, { value }] of Object.entries(examples)) {
          if (value !== undefined) expect([name, judge.faultsOf(schema, value)]).toEqual([name, []]);
        }
        const { 'application/json': json } = content;
        for (const [name, { value }] of Object.entries(json?.examples ?? {}))
          expect([name, value], 'record it: see dev/descriptions.ts').not.toEqual([name, undefined]);
      }
    }
  });

  test('the operation’s successful requests fit their schemas', () => {
    const succeed = exchanges.filter(({ status }) => status < 400).map(({ name }) => name);
    for (const { schema, examples = {} } of Object.values(operation.requestBody?.content ?? {})) {
      for (const name of succeed) {
        if (examples[name]) expect([name, judge.faultsOf(schema, examples[name].value)]).toEqual([name, []]);
      }
    }
    for (const { schema, examples = {} } of operation.parameters ?? []) {
      for (const name of succeed) {
        if (examples[name]) expect([name, judge.faultsOf(schema, examples[name].value)]).toEqual([name, []]);
      }
    }
  });
});
