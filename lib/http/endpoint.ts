import type { z } from 'zod';

import type { VisitorLimits } from './visit.ts';
import type { Cors } from './cors.ts';
import { guardedEndpoint } from './guarded-endpoint.ts';
import type { Endpoint, Handle, ProblemAnswer } from './guarded-endpoint.ts';
import type { Operation } from './operation.ts';

/** The capability that answers an operation, and the settings that the operation's declaration calls for. */
type Answering<Declared extends Operation> = {
  readonly handle: Handle<BodyOf<Declared>>;
  /** How long the platform lets the function live, if not as long as most; see `lib/lifetime.ts`. */
  readonly lifeMs?: number;
} & (Declared extends { readonly cors: 'listed' } ? { readonly cors: () => Cors } : unknown) &
  (Declared extends { readonly isLimited: true }
    ? { readonly visitorLimits: () => VisitorLimits }
    : unknown) &
  (Declared extends { readonly hasPages: true } ? { readonly problemAnswer: ProblemAnswer } : unknown);

/** A provider signs the bytes of its body, so the handler reads that one itself. */
type BodyOf<Declared extends Operation> = Declared extends { readonly access: 'provider' }
  ? undefined
  : Declared extends { readonly body: { readonly schema: z.ZodType<infer Body> } }
    ? Body
    : undefined;

/**
 * Makes a function of the platform out of an operation, which OpenAPI describes from the same declaration.
 *
 * @see guardedEndpoint for what every answer has, and for the order of the guards.
 */
export function endpoint<Declared extends Operation>(
  operation: Declared,
  answering: Answering<Declared>,
): Endpoint;
export function endpoint(operation: Operation, answering: AnyAnswering): Endpoint {
  const { method, path, access, body, isAnonymous = false } = operation;
  const cors = operation.cors === 'any' ? () => 'any' as const : answering.cors;
  const declaration = {
    ...answering,
    methods: [method === 'get' ? 'GET' : 'POST'],
    route: path.replaceAll(/\{(\w+)\}/g, ':$1'),
    isAnonymous,
    ...(cors && { cors }),
  } as const;
  return body && access !== 'provider'
    ? guardedEndpoint({ ...declaration, body })
    : guardedEndpoint(declaration);
}

interface AnyAnswering {
  readonly handle: Handle<unknown>;
  readonly lifeMs?: number;
  readonly cors?: () => Cors;
  readonly visitorLimits?: () => VisitorLimits;
  readonly problemAnswer?: ProblemAnswer;
}
