import { headers } from '../answer-headers.ts';
import { headerComponents, OperationWriter } from './operation-object.ts';
import { PROBLEM_TYPE } from '../operation.ts';
import type { Operation, Tag } from '../operation.ts';
import { problem, problemValue } from '../problem-codes.ts';
import { SchemaWriter } from './schema-writer.ts';
import { VERSION } from '../../version.ts';

/** An OpenAPI document, as far as we look into it ourselves. */
export interface OpenApi {
  readonly openapi: '3.1.0';
  readonly paths: Readonly<Record<string, object>>;
  readonly [section: string]: unknown;
}

/**
 * Describes endpoints by their declarations, which also check their requests.
 *
 * @returns the same document for the same declarations.
 * @see https://spec.openapis.org/oas/v3.1.0
 */
export function openApi(operations: readonly Operation[]): OpenApi {
  const schemas = new SchemaWriter();
  const paths = pathsOf(operations, new OperationWriter(schemas));
  const failure = {
    description:
      'What any request may get besides: 500 `internal_error`, and, of another method, 405 `method_not_allowed` with `Allow`.',
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
    servers: [{ url: '/', description: 'Where this document is served.' }],
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
  `Errors are \`application/problem+json\` (RFC 9457) everywhere; act on \`code\`, which is stable.
\`HEAD\` comes with every \`GET\`. Another method than those described is a 405 with \`Allow\`. Operations that pages of
other origins call answer \`OPTIONS\`. What the platform answers in our place is plain text with \`X-Vercel-Error\` and no
request id: 413 for a body above 4.5 MB, 504 for what took too long.

Operators send \`Authorization: Bearer <JWT>\` with a token that has the scope that the operation names. Browsers get a
page where a program gets JSON, by \`Accept\`, and sign in with a cookie.

Read over fields that you don't know: answers may gain some.

Examples of one name belong together, in parameters, body and answer: that request gets an answer of that status and, if
it is a problem, of that code. They are meant to be sent in their order, with \`Accept\` of the media type of the answer's
example. An answer without a body lists them in \`x-examples\`; one with status 303 is for who accepts \`text/html\`. An
example of a 401 is sent without credentials, one of \`insufficient_scope\` with a token that has no scope. \`x-events\`
holds the schemas of what comes in server-sent events, \`x-limit-bytes\` the longest body that is taken.`.replaceAll(
    /(?<!\n)\n(?!\n)/g,
    ' ',
  );

const TAGS: Readonly<Record<Tag, string>> = {
  Health: 'Whether it runs.',
  Descriptions: 'This document.',
  Chat: 'What visitors of the marketing site ask the language model.',
  Inquiry: 'What they write to the administrator.',
  Webhooks: 'What payment and identity providers tell.',
  Relay: 'What the platform’s clock calls.',
  'Event bus': 'The operators’ view of the bus, and what they can do.',
  'Sign-in': 'Sessions of the operators’ console.',
};

const REQUEST_ID = {
  in: 'header',
  name: 'X-Request-Id',
  description: 'A name of the caller’s own for the request, which the answer repeats.',
  schema: { type: 'string', pattern: '^[A-Za-z0-9._:-]{1,128}$' },
};

const SECURITY_SCHEMES = {
  operatorToken: {
    type: 'http',
    scheme: 'bearer',
    bearerFormat: 'JWT',
    description: 'An operator’s token. Its claim `scope` holds the scopes, with spaces between them.',
  },
  operatorSession: {
    type: 'apiKey',
    in: 'cookie',
    name: '__Host-event-bus',
    description:
      'The same token in a cookie, as signing in sets it. What changes something must come from our pages.',
  },
  cronSecret: { type: 'http', scheme: 'bearer', description: 'CRON_SECRET.' },
  webhookSignature: {
    type: 'apiKey',
    in: 'header',
    name: 'webhook-signature',
    description:
      'Standard Webhooks: `v1,` and the base64 HMAC-SHA256 of `<webhook-id>.<webhook-timestamp>.<body>` with the provider’s secret. Other schemes sign in other headers.',
  },
};
