import * as z from 'zod';

/** An error as an answer. @see https://www.rfc-editor.org/rfc/rfc9457 */
export const problem = z
  .object({
    type: z.literal('about:blank'),
    title: z.string().meta({ description: 'The status in words.' }),
    status: z.int().min(400).max(599),
    code: z.string().meta({ description: 'Stable; programs act on it.' }),
    detail: z.string().meta({ description: 'Says what is wrong and what to do about it, for developers.' }),
    requestId: z.string().meta({ description: 'Names the request in our logs. The same as X-Request-Id.' }),
    scope: z.enum(['visitor', 'network', 'service']).optional().meta({
      description:
        'With `rate_limited`: whose limit was reached, the visitor’s own, that of all visitors of one network, or that of all visitors together.',
    }),
    issues: z
      .array(
        z
          .object({
            path: z
              .string()
              .meta({ description: 'Dotted, for example `lines.0.email`; empty for the body.' }),
            pointer: z.string().meta({ description: 'The same as a JSON Pointer (RFC 6901).' }),
            code: z.string(),
            message: z.string().meta({ description: 'Says what was expected and what was given.' }),
          })
          .meta({ id: 'Issue', description: 'One invalid field of a request.' }),
      )
      .optional()
      .meta({ description: 'With `validation_failed`: one issue for each invalid field.' }),
    kept: z.boolean().optional().meta({
      description:
        'With `email_failed`, `email_timeout` and `email_unreachable`: whether the inquiry is kept, and mailed as soon as the mail provider takes it.',
    }),
    mayBeSent: z.boolean().optional().meta({
      description: 'With the same codes: whether the mail may have been sent all the same.',
    }),
  })
  .meta({ id: 'Problem', description: 'An error as an answer (RFC 9457).' });
