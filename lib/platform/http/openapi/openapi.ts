import { VERSION } from '../../version.ts';
import { headers } from '../answer-headers.ts';
import { PROBLEM_TYPE } from '../operation.ts';
import type { Operation, Tag } from '../operation.ts';
import { problemValue } from '../problem-codes.ts';
import { problem } from '../problem-shape.ts';
import { headerComponents, OperationWriter } from './operation-object.ts';
import { SchemaWriter } from './schema-writer.ts';

/** An OpenAPI document: the fields that we read ourselves. */
export interface OpenApi {
  readonly openapi: '3.1.0';
  readonly paths: Readonly<Record<string, object>>;
  readonly [section: string]: unknown;
}

/**
 * Describes endpoints by their declarations, which also check their requests.
 *
 * @returns the same document for the same declarations and answers.
 * @see https://spec.openapis.org/oas/v3.1.0
 */
export function openApi(operations: readonly Operation[]): OpenApi {
  const schemas = new SchemaWriter();
  const paths = pathsOf(operations, new OperationWriter(schemas));
  const failure = {
    description:
      'Any request may also get 500 `internal_error`; another method gets 405 `method_not_allowed` with `Allow`.',
    headers: {
      'X-Request-Id': { $ref: '#/components/headers/X-Request-Id' },
      'Cache-Control': { $ref: '#/components/headers/Cache-Control' },
      'X-Content-Type-Options': { $ref: '#/components/headers/X-Content-Type-Options' },
      Allow: { ...headers.Allow, required: false },
    },
    content: {
      [PROBLEM_TYPE]: {
        schema: schemas.write(problem),
        examples: { failure: { summary: 'A failure', value: problemValue('internal_error') } },
      },
    },
  };
  return {
    openapi: '3.1.0',
    info: { title: 'Postbud', version: VERSION, summary: SUMMARY, description: DESCRIPTION },
    servers: [{ url: '/', description: 'The server of this document.' }],
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
    paths,
    components: {
      schemas: schemas.components(),
      responses: { Failure: failure },
      parameters: { RequestId: REQUEST_ID },
      headers: headerComponents(),
      securitySchemes: SECURITY_SCHEMES,
    },
  };
}

function pathsOf(operations: readonly Operation[], writer: OperationWriter): Record<string, object> {
  const paths: Record<string, object> = {};
  const order = Object.keys(TAGS);
  const inOrder = operations.toSorted((one, other) => order.indexOf(one.tag) - order.indexOf(other.tag));
  for (const operation of inOrder) {
    paths[operation.path] = {
      ...(!operation.isAnonymous && { parameters: [{ $ref: '#/components/parameters/RequestId' }] }),
      ...paths[operation.path],
      [operation.method]: writer.write(operation),
    };
  }
  return paths;
}

const SUMMARY = 'The public edge and the event bus of a booking platform for municipal venues.';

const DESCRIPTION =
  `All errors are \`application/problem+json\` (RFC 9457). Act on \`code\`, which is stable. Every \`GET\` also answers
\`HEAD\`; other methods get 405 with \`Allow\`. Operations that pages of other origins call also answer \`OPTIONS\`.
The platform's own answers are plain text with \`X-Vercel-Error\` and no request id: 413 for a body above 4.5 MB, 504
for a call that took too long.

Operators send \`Authorization: Bearer <JWT>\` with a token that has the operation's scope. Browsers, recognised by their
\`Accept\`, get pages where programs get JSON, and sign in with a cookie.

Ignore fields that you do not know: answers may gain fields.

The parameters, the body and the answer of an example share its name: that request gets an answer with that status and,
for a problem, that code. Send examples in their order, with the media type of the answer as \`Accept\`. An answer without
a body lists its examples in \`x-examples\`; an example of status 303 needs \`Accept: text/html\`. Send examples of 401
without credentials, and those of \`insufficient_scope\` with a token without scopes. \`x-events\` has the schemas of
server-sent events, \`x-limit-bytes\` the maximum length of the body.`.replaceAll(/(?<!\n)\n(?!\n)/g, ' ');

const TAGS: Readonly<Record<Tag, string>> = {
  Health: 'A probe of the process.',
  Descriptions: 'This document.',
  Chat: 'Questions of the marketing site’s visitors to the language model.',
  Inquiry: 'The visitors’ inquiries to the administrator.',
  Webhooks: 'Notifications of payment and identity providers.',
  Relay: 'The platform’s cron and producers in other repositories call this.',
  'Event bus': 'The operators’ view of the bus, and their actions.',
  'Sign-in': 'Sessions of the operators’ console.',
};

const REQUEST_ID = {
  in: 'header',
  name: 'X-Request-Id',
  description: 'The caller’s own id for the request. The answer repeats it.',
  schema: { type: 'string', pattern: '^[A-Za-z0-9._:-]{1,128}$' },
};

const SECURITY_SCHEMES = {
  operatorToken: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'An operator’s token. Its claim `scope` lists the scopes, separated by spaces.',
  },
  operatorSession: {
    type: 'apiKey',
    in: 'cookie',
    name: '__Host-event-bus',
    description:
      'The same token in a cookie, set by signing in. Requests that change something must come from the console.',
  },
  cronSecret: { type: 'http', scheme: 'bearer', description: 'CRON_SECRET.' },
  webhookSignature: {
    type: 'apiKey',
    in: 'header',
    name: 'webhook-signature',
    description:
      'Standard Webhooks: `v1,` and the base64 HMAC-SHA256 of `<webhook-id>.<webhook-timestamp>.<body>` with the provider’s secret, KICK_SECRET, or PRODUCER_<NAME>_SECRET. Other schemes use other headers.',
  },
};
