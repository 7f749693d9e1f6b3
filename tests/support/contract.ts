import { Webhook } from 'standardwebhooks';

import { operatorToken } from './operator-token.ts';

/** What a stranger who has the OpenAPI document sends and expects. Knows nothing of the code. */

export type Schema = Readonly<Record<string, unknown>>;
type Examples = Readonly<Record<string, { readonly value?: unknown }>>;

interface Media {
  readonly schema: Schema;
  readonly examples?: Examples;
  readonly 'x-events'?: Readonly<Record<string, Schema>>;
}

export interface Header {
  readonly $ref?: string;
  readonly required?: boolean;
  readonly schema: Schema;
}

export interface DocumentedAnswer {
  readonly headers: Readonly<Record<string, Header>>;
  readonly content?: Readonly<Record<string, Media>>;
  readonly 'x-examples'?: readonly string[];
}

interface OperationObject {
  readonly operationId: string;
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
  readonly parameters?: readonly { in: string; name: string; schema: Schema; examples?: Examples }[];
  readonly requestBody?: {
    readonly content: Readonly<Record<string, Media>>;
    readonly 'x-limit-bytes': number;
  };
  readonly responses: Readonly<Record<string, DocumentedAnswer>>;
}

export interface OpenApiDocument {
  readonly paths: Readonly<Record<string, Readonly<Record<string, OperationObject>>>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema>>;
    readonly headers: Readonly<Record<string, Header>>;
  };
}

export interface DocumentedOperation extends OperationObject {
  readonly path: string;
  readonly method: string;
}

/** A request of the document, and the answer that it should get. */
export interface Exchange {
  readonly operation: DocumentedOperation;
  readonly name: string;
  readonly status: number;
  /** Of the answer; undefined: it has no body. */
  readonly type: string | undefined;
  /** Of the problem that it should be. */
  readonly code: string | undefined;
}

export function operationsOf({ paths }: OpenApiDocument): readonly DocumentedOperation[] {
  return Object.entries(paths).flatMap(([path, methods]) =>
    ['get', 'post'].flatMap((method) => {
      const operation = methods[method];
      return operation ? [{ ...operation, path, method: method.toUpperCase() }] : [];
    }),
  );
}

/** The exchanges that an operation's examples are, in their order. */
export function exchangesOf(operation: DocumentedOperation): readonly Exchange[] {
  return Object.entries(operation.responses).flatMap(
    ([status, { content = {}, 'x-examples': bodiless = [] }]) => [
      ...Object.entries(content).flatMap(([type, { examples = {} }]) =>
        Object.entries(examples).map(([name, { value }]) => ({
          operation,
          name,
          status: Number(status),
          type,
          code: type === PROBLEM_TYPE ? (value as { code: string }).code : undefined,
        })),
      ),
      ...bodiless.map((name) => ({
        operation,
        name,
        status: Number(status),
        type: undefined,
        code: undefined,
      })),
    ],
  );
}

const PROBLEM_TYPE = 'application/problem+json';

/** Where it runs, and what a caller has been given. */
export interface Target {
  readonly url: string;
  readonly operatorSecret: string;
  /** Of the provider of the examples. */
  readonly webhookSecret: string;
}

/** Sends an example. */
export async function sendExample(target: Target, { operation, name, status, type, code }: Exchange) {
  const parameters = (operation.parameters ?? []).flatMap(({ in: place, name: parameter, examples }) => {
    const value = examples?.[name]?.value;
    return value === undefined ? [] : [{ place, parameter, text: String(value) }];
  });
  const [contentType, media] =
    Object.entries(operation.requestBody?.content ?? {}).find(([, { examples }]) => examples?.[name]) ?? [];
  return await send(target, operation, {
    accept: acceptOf(status, type),
    parameters,
    contentType,
    body: media?.examples?.[name]?.value,
    scopes: code === 'insufficient_scope' ? [] : undefined,
    isAnonymous: status === 401,
  });
}

function acceptOf(status: number, type: string | undefined): string {
  if (status === 303) return 'text/html';
  return type === undefined || type === PROBLEM_TYPE ? 'application/json' : type;
}

interface Sent {
  readonly accept?: string;
  readonly parameters?: readonly {
    readonly place: string;
    readonly parameter: string;
    readonly text: string;
  }[];
  readonly contentType?: string | undefined;
  readonly body?: unknown;
  /** Those of the operation unless given. */
  readonly scopes?: readonly string[] | undefined;
  readonly isAnonymous?: boolean;
}

/** Sends a request to an operation. */
export async function send(target: Target, operation: DocumentedOperation, sent: Sent): Promise<Response> {
  const { accept = 'application/json', parameters = [], contentType, body, isAnonymous = false } = sent;
  let { path } = operation;
  const query = new URLSearchParams();
  const headers = new Headers({ accept });
  for (const { place, parameter, text } of parameters) {
    if (place === 'path') path = path.replace(`{${parameter}}`, encodeURIComponent(text));
    if (place === 'query') query.set(parameter, text);
    if (place === 'header') headers.set(parameter, text);
  }
  const written = body === undefined ? undefined : bodyOf(contentType, body);
  if (contentType !== undefined) headers.set('content-type', contentType);
  if (!isAnonymous) await authorize(target, operation, headers, written ?? '', sent.scopes);
  return await fetch(`${target.url}${path}${query.size > 0 ? `?${query}` : ''}`, {
    method: operation.method,
    headers,
    redirect: 'manual',
    ...(written !== undefined && { body: written }),
  });
}

function bodyOf(contentType: string | undefined, body: unknown): string {
  if (typeof body === 'string') return body;
  if (contentType === 'application/x-www-form-urlencoded') {
    return new URLSearchParams(body as Record<string, string>).toString();
  }
  return JSON.stringify(body);
}

async function authorize(
  target: Target,
  { security }: DocumentedOperation,
  headers: Headers,
  body: string,
  scopes: readonly string[] | undefined,
): Promise<void> {
  const [scheme] = security;
  if (scheme?.['operatorToken']) {
    const scope = scopes ?? scheme['operatorToken'];
    headers.set(
      'authorization',
      `Bearer ${await operatorToken({ scope: scope.join(' ') }, target.operatorSecret)}`,
    );
  }
  const id = headers.get('webhook-id');
  if (scheme?.['webhookSignature'] && id !== null) {
    const now = new Date();
    headers.set('webhook-timestamp', `${Math.floor(now.getTime() / 1000)}`);
    headers.set('webhook-signature', new Webhook(target.webhookSecret).sign(id, now, body));
  }
}
