import type { z } from 'zod';

import { readBody, requireJson } from './body.ts';
import { badRequest } from './problem.ts';
import type { Issue } from './problem.ts';

/**
 * Reads a JSON body and checks it against a schema.
 *
 * @throws Problem 415 or 413 as `readBody` does; 400 `validation_failed` with an issue for every wrong field.
 */
export async function readValidated<Schema extends z.ZodType>(
  request: Request,
  schema: Schema,
  limitBytes: number,
): Promise<z.output<Schema>> {
  requireJson(request);
  const parsed = schema.safeParse(parseJson(await readBody(request, limitBytes)));
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues.map(issueOf);
  throw badRequest(
    'validation_failed',
    issues.map(({ path, message }) => `${path || 'body'}: ${message}`).join('; '),
    {
      issues,
    },
  );
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes));
  } catch {
    throw badRequest('validation_failed', 'body: write JSON in UTF-8', {
      issues: [{ path: '', pointer: '', code: 'invalid_json', message: 'write JSON in UTF-8' }],
    });
  }
}

function issueOf(issue: z.core.$ZodIssue): Issue {
  const steps = issue.path.map(String);
  return {
    path: steps.join('.'),
    pointer: steps.map((step) => `/${step.replaceAll('~', '~0').replaceAll('/', '~1')}`).join(''),
    code: issue.code === 'invalid_format' ? `invalid_${issue.format}` : issue.code,
    message: issue.message,
  };
}
