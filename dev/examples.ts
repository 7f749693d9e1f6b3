import type { Example, Operation } from '../lib/platform/http/operation.ts';
import { JSON_TYPE, PROBLEM_TYPE } from '../lib/platform/http/operation.ts';
import { problemCodes, problemValue } from '../lib/platform/http/problem-codes.ts';
import { SCOPES } from '../lib/platform/scopes.ts';
import { REQUESTS } from './example-requests.ts';
import type { ExampleRequest } from './example-requests.ts';

/** The value that a server answered an example with; undefined: none was recorded. */
export type Recorded = (operationId: string, example: string) => unknown;

/**
 * Gives a route of the console its examples: those of `example-requests.ts`, and those that follow from the route: a name
 * that nobody has, an action without a reason, a request without a token and without the scope.
 */
export function withExamples(operation: Operation, recorded: Recorded): Operation {
  if (operation.examples) return operation;
  const { id, access } = operation;
  const own: Readonly<Record<string, ExampleRequest>> = {
    ...(REQUESTS[id] ?? (isOfMany(operation) && { 'as-json': { summary: 'As JSON' } })),
    ...ofNobody(operation),
  };
  const [first] = Object.values(own);
  const refused = isScope(access) && {
    'without-a-token': { ...first, summary: 'Without a token', is: 'unauthorized' as const },
    'without-the-scope': {
      ...first,
      summary: `With a token that lacks the scope ${access}`,
      is: 'insufficient_scope' as const,
    },
  };
  const requests: Readonly<Record<string, ExampleRequest>> = { ...own, ...refused };
  const answered = Object.entries(requests).map(([name, request]) => [
    name,
    exampleOf(request, recorded(id, name)),
  ]);
  return { ...operation, examples: Object.fromEntries(answered) };
}

function exampleOf({ is, status, type, ...request }: ExampleRequest, value: unknown): Example {
  if (is) {
    const answer = { status: problemCodes[is].status, type: PROBLEM_TYPE, value: value ?? problemValue(is) };
    return { ...request, answer };
  }
  if (status) return { ...request, answer: { status } };
  return { ...request, answer: { status: 200, type: type ?? JSON_TYPE, ...(!type && { value }) } };
}

const isScope = (access: Operation['access']) => SCOPES.some((scope) => scope === access);

const isOfMany = ({ method, parameters = [] }: Operation) =>
  method === 'get' && parameters.every(({ in: place }) => place !== 'path');

/** Names that nobody has, by the parameter of a path. */
const NOBODY: Readonly<Record<string, string>> = {
  deliveryId: '00000000-0000-7000-8000-000000000000.accounting',
  eventId: '019c7f3e-0000-7000-8000-000000000000',
  id: '999999999999999999',
  subscriber: 'telegrams',
  topic: 'payment.forgotten',
};

function ofNobody({ problems, parameters = [], body }: Operation): Record<string, ExampleRequest> {
  const [name] = parameters.flatMap(({ in: place, name: named }) => (place === 'path' ? [named] : []));
  if (name === undefined || !problems.includes('not_found')) return {};
  const of = { [name]: NOBODY[name] ?? '019a0000-0000-7000-8000-000000000009' };
  const missing = body?.schema.safeParse({}).error?.issues.map(({ path }) => String(path[0])) ?? [];
  const [words, more] = missing;
  const json = { [words ?? 'reason']: 'Accounting is back.' };
  if (more !== undefined || body?.schema.safeParse(json).success === false) return {};
  return {
    nobody: {
      summary: `An unknown ${name.replace(/Id$/, '')}`,
      parameters: of,
      ...(body && { json }),
      is: 'not_found',
    },
    ...(words !== undefined && {
      [`without-a-${words}`]: {
        summary: `Without a ${words}`,
        parameters: of,
        json: {},
        is: 'validation_failed' as const,
      },
    }),
  };
}
