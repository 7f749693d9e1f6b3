import * as z from 'zod';

import { CSV_TYPE, HTML_TYPE, JSON_TYPE } from '../../platform/http/operation.ts';
import type { Answer, Operation } from '../../platform/http/operation.ts';
import { csvParameter } from './csv.ts';

// What OpenAPI says of a route, made of its declaration.

/** Of a declaration, what is described. */
interface Described {
  readonly parameters?: Readonly<Record<string, z.ZodType>>;
  readonly query?: z.ZodType;
  readonly answer: z.ZodType;
  readonly csv?: object;
  readonly page?: unknown;
  readonly redirectTo?: unknown;
}

/** Describes what a route is asked with: its path, its query, and a list as CSV. */
export function describeParameters({
  parameters = {},
  query,
  csv,
}: Described): NonNullable<Operation['parameters']> {
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
export function describeAnswers({ answer, csv, page, redirectTo }: Described): readonly Answer[] {
  return [
    {
      status: 200,
      description: answer.description ?? 'The answer.',
      content: {
        [JSON_TYPE]: answer,
        ...(page !== undefined && { [HTML_TYPE]: TEXT }),
        ...(csv !== undefined && { [CSV_TYPE]: TEXT }),
      },
    },
    ...(redirectTo === undefined ? [] : [SEE_OTHER]),
  ];
}

const TEXT = z.string();

const SEE_OTHER: Answer = {
  status: 303,
  description: 'The same, to a browser that sent a form: a redirect to the next page.',
  headers: ['Location', 'Set-Cookie'],
};
