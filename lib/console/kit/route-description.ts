import * as z from 'zod';

import { CSV_TYPE, HTML_TYPE, JSON_TYPE, refused } from '../../platform/http/operation.ts';
import type { Answer, Example, Operation, Scope } from '../../platform/http/operation.ts';
import { csvParameter } from './csv.ts';

// What OpenAPI says of a route, made of its declaration.

/** Describes what a route is asked with: its path, its query, and a list as CSV. */
export function describeParameters({
  parameters = {},
  query,
  csv,
}: {
  readonly parameters?: Readonly<Record<string, z.ZodType>>;
  readonly query?: z.ZodType;
  readonly csv?: string;
}): NonNullable<Operation['parameters']> {
  // A query that is rewritten before it is checked is described by the schema that checks it.
  const fields = query instanceof z.ZodPipe ? query.out : query;
  const shape = fields instanceof z.ZodObject ? fields.shape : {};
  return [
    ...Object.entries(parameters).map(([name, schema]) => ({ in: 'path' as const, name, schema })),
    ...Object.entries<z.ZodType>(shape).map(([name, schema]) => ({
      in: 'query' as const,
      name,
      schema,
      isList: name === 'deliveryIds',
    })),
    ...(csv === undefined ? [] : [csvParameter()]),
  ];
}

/** Describes what a route answers with success. */
export function describeAnswers({
  answer,
  links,
  csv,
  page,
  redirectTo,
}: {
  readonly answer: z.ZodType;
  readonly csv?: string;
  readonly links?: Answer['links'];
  readonly page?: unknown;
  readonly redirectTo?: unknown;
}): readonly Answer[] {
  return [
    {
      status: 200,
      description: answer.description ?? 'The answer.',
      content: {
        [JSON_TYPE]: answer,
        ...(page !== undefined && { [HTML_TYPE]: z.string() }),
        ...(csv !== undefined && { [CSV_TYPE]: z.string() }),
      },
      ...(links && { links }),
    },
    ...(redirectTo === undefined ? [] : [SEE_OTHER]),
  ];
}

const SEE_OTHER: Answer = {
  status: 303,
  description: 'The same, to a browser that sent a form: a redirect to the next page.',
  headers: ['Location'],
};

/** The first example again, without a token and without the scope. */
export function refusals(examples: Operation['examples'], scope: Scope): Readonly<Record<string, Example>> {
  const [request] = Object.values(examples);
  return {
    'without-a-token': { ...request, summary: 'Without a token', answer: refused('unauthorized') },
    'without-the-scope': {
      ...request,
      summary: `With a token that lacks the scope ${scope}`,
      answer: refused('insufficient_scope', { detail: `The token lacks the scope ${scope}.` }),
    },
  };
}
