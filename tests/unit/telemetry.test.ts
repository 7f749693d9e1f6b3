import { context } from '@opentelemetry/api';
import { afterEach, describe, expect, test, vi } from 'vitest';

import { wrongVariables } from '../../lib/platform/config.ts';
import { guardedEndpoint } from '../../lib/platform/http/guarded-endpoint.ts';
import { logTo } from '../../lib/platform/log.ts';
import type { LogLine } from '../../lib/platform/log.ts';
import { contextOf } from '../../lib/platform/telemetry/continued-trace.ts';
import { classOf, safeKind } from '../../lib/platform/telemetry/tracing.ts';
import { traceId, traceparent } from '../../lib/platform/trace-context.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const SPAN = 'b7ad6b7169203331';

/** What goes on within a traceparent says that its own is; null for one that is not taken. */
function continued(text: string | null): string | null {
  const found = contextOf(text);
  return found && context.with(found, traceparent);
}

describe('a traceparent', () => {
  test.each([
    ['is taken as it is', `00-${TRACE}-${SPAN}-01`, `00-${TRACE}-${SPAN}-01`],
    ['need not be sampled', `00-${TRACE}-${SPAN}-00`, `00-${TRACE}-${SPAN}-00`],
    [
      'of a later version is taken by what it shares',
      `cc-${TRACE}-${SPAN}-01-more`,
      `00-${TRACE}-${SPAN}-01`,
    ],
    ['keeps of its flags the one that is known here', `00-${TRACE}-${SPAN}-ff`, `00-${TRACE}-${SPAN}-01`],
  ])('a traceparent %s', (_, text, own) => {
    expect(continued(text)).toBe(own);
  });

  test.each([
    null,
    '',
    'none',
    `ff-${TRACE}-${SPAN}-01`,
    `00-${TRACE.toUpperCase()}-${SPAN}-01`,
    `00-${'0'.repeat(32)}-${SPAN}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    `00-${TRACE}-${SPAN}`,
    `00-${TRACE}-${SPAN}-01-more`,
    `00-${TRACE}-${SPAN}-01\n`,
  ])('the traceparent %j is not valid', (text) => {
    expect(contextOf(text)).toBeNull();
  });

  test('there is no traceparent outside a trace', () => {
    expect([traceparent(), traceId()]).toEqual([null, null]);
  });
});

describe('of an error', () => {
  test.each(['TypeError', 'http_503', 'ECONNREFUSED', '40001', 'retry_after', 'a.b:c-d'])(
    'a span names the kind of error %s',
    (kind) => expect(safeKind(kind)).toBe(kind),
  );

  test.each(['kari@example.no', 'Kari Nordmann', '', 'a'.repeat(101), 'a\nb', null])(
    'a span calls the kind of error %j, which may hold anything, other',
    (kind) => expect(safeKind(kind)).toBe('other'),
  );

  test('a span names the class of whatever was thrown', () => {
    expect([new RangeError('kanari'), 'kanari', undefined].map(classOf)).toEqual([
      'RangeError',
      'other',
      'other',
    ]);
  });
});

test('a request’s span is named by its declared route', async () => {
  const lines: LogLine[] = [];
  logTo((line) => lines.push(line));
  const handle = async () => new Response();
  for (const route of [{ route: '/a/:who' }, {}]) {
    await guardedEndpoint({ methods: ['GET'], handle, ...route }).fetch(
      new Request('https://postbud.example/a/kari'),
    );
  }
  expect(lines.map((line) => [line['route'], line['path']])).toEqual([
    ['/a/:who', undefined],
    [undefined, '/a/kari'],
  ]);
});

afterEach(() => vi.unstubAllEnvs());

test.each([
  ['LOG_LEVEL', 'loud'],
  ['OTEL_EXPORTER_OTLP_ENDPOINT', 'collector:4318'],
  ['OTEL_TRACES_SAMPLER', 'often'],
  ['OTEL_TRACES_SAMPLER_ARG', '2'],
])('the variable %s=%s is refused', (name, value) => {
  vi.stubEnv(name, value);
  expect(wrongVariables()).toMatchObject([
    { variable: name, message: expect.stringMatching(new RegExp(`^${name} must `)) },
  ]);
});
