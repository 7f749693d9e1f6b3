import type { z } from 'zod';

import type { Cors } from './cors.ts';
import { guardedEndpoint } from './guarded-endpoint.ts';
import type { Endpoint, Handle, ProblemAnswer } from './guarded-endpoint.ts';
import type { Operation } from './operation.ts';
import type { VisitorLimits } from './visit.ts';

/** The handler of an operation, and the settings that its declaration requires. */
type Answering<Declared extends Operation> = {
  readonly handle: Handle<BodyOf<Declared>>;
  /** The function's `maxDuration`, if not the usual one; see `lib/platform/lifetime.ts`. */
  readonly lifeMs?: number;
} & (Declared extends { readonly cors: 'listed' } ? { readonly cors: () => Cors } : unknown) &
  (Declared extends { readonly isLimited: true }
    ? { readonly visitorLimits: () => VisitorLimits }
    : unknown) &
  (Declared extends { readonly hasPages: true } ? { readonly problemAnswer: ProblemAnswer } : unknown);

/** Providers and producers sign the bytes of their bodies, so the handlers read these themselves. */
type BodyOf<Declared extends Operation> = Declared extends { readonly access: 'provider' | 'producer' }
  ? undefined
  : Declared extends { readonly body: { readonly schema: z.ZodType<infer Body> } }
    ? Body
    : undefined;

/**
 * Makes a platform function from an operation. OpenAPI describes the function from the same declaration.
 *
 * @see guardedEndpoint for the headers of every answer and the order of the guards.
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
  return body && access !== 'provider' && access !== 'producer'
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
