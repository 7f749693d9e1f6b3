import * as z from 'zod';

import { VERSION } from '../../version.ts';
import { answered, JSON_TYPE } from '../operation.ts';
import type { Operation } from '../operation.ts';

export const openApiRoute = {
  id: 'readOpenApi',
  method: 'get',
  path: '/api/openapi.json',
  tag: 'Descriptions',
  summary: 'Get this document',
  access: 'anyone',
  cors: 'any',
  parameters: [
    {
      in: 'header',
      name: 'If-None-Match',
      description: 'The ETag of the caller’s copy.',
      schema: z.string(),
    },
  ],
  answers: [
    {
      status: 200,
      description: 'An OpenAPI 3.1 document.',
      content: {
        [JSON_TYPE]: z.looseObject({
          openapi: z.literal('3.1.0'),
          info: z.looseObject({ version: z.string() }),
        }),
      },
      headers: ['ETag'],
    },
    { status: 304, description: 'The caller’s copy is current.', headers: ['ETag'] },
  ],
  problems: [],
  examples: {
    'the-document': {
      summary: 'The document',
      answer: answered({ openapi: '3.1.0', info: { title: 'Postbud', version: VERSION } }),
    },
    'whatever-is-kept': {
      summary: 'With any copy',
      parameters: { 'If-None-Match': '*' },
      answer: { status: 304 },
    },
  },
} satisfies Operation;
