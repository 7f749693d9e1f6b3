import type * as Sdk from '@anthropic-ai/sdk';

import { deepestCodeOf, isNeverConnected } from '../../platform/http/no-connection.ts';
import { Problem } from '../../platform/http/problem.ts';

/** The reasons why a call to the language model failed. */
export type FailureCode =
  | 'provider_unavailable'
  | 'provider_rejected'
  | 'provider_timeout'
  | 'provider_unreachable'
  | 'provider_bad_response';

export interface Failure {
  readonly code: FailureCode;
  /** Whether an immediate second attempt may succeed. */
  readonly isPassing: boolean;
  /** The wait that the provider asks for. */
  readonly retryAfterSeconds?: number | undefined;
  /** The HTTP status that the provider answered with. */
  readonly providerStatus?: number | undefined;
  /** The provider's id of the call, for its support. */
  readonly providerRequestId?: string | undefined;
}

/** The provider answered with success, but not with a message with text. */
export class BadResponse extends Error {
  readonly code = 'provider_bad_response';

  constructor() {
    super('the provider’s answer has no text, or an unknown shape');
    this.name = 'BadResponse';
  }
}

/**
 * Makes the caller's answer from a failure. Never with the provider's words, which may quote keys, prompts and unpaid
 * bills.
 */
export function problemOf({ code, retryAfterSeconds }: Failure): Problem {
  return new Problem(code, { retryAfterSeconds });
}

/** Classifies the error of a call that neither its deadline nor its caller ended. */
export function failureOf(sdk: typeof Sdk, error: unknown): Failure {
  if (error instanceof BadResponse || error instanceof SyntaxError) {
    return { code: 'provider_bad_response', isPassing: false };
  }
  if (error instanceof sdk.APIConnectionTimeoutError) return { code: 'provider_timeout', isPassing: false };
  if (error instanceof sdk.APIConnectionError || !(error instanceof sdk.APIError)) {
    return { code: 'provider_unreachable', isPassing: isReset(error) };
  }
  return {
    ...answeredFailure(error),
    providerStatus: typeof error.status === 'number' ? error.status : undefined,
    providerRequestId: REQUEST_ID.exec(error.requestID ?? '')?.[0],
  };
}

const REQUEST_ID = /^[\w-]{1,64}$/;

/** Whether an established connection broke. A refused or unresolved one will not work a moment later. */
function isReset(error: unknown): boolean {
  return ['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'].includes(deepestCodeOf(error) ?? '');
}

/**
 * Whether a failed attempt may have reached a model, and cost something. Without a connection or after a 4xx it
 * has not; after a 5xx, a reset or a timeout it may have.
 */
export function mayHaveReachedModel(sdk: typeof Sdk, error: unknown): boolean {
  if (error instanceof sdk.APIError && error.status !== undefined) return error.status >= 500;
  return !isNeverConnected(deepestCodeOf(error));
}

/**
 * A 4xx is our fault, even a 400: the request passed our own checks, and the provider answers 400 to an unknown model
 * and to a spending limit that the owner set. 408, 409 and 429 are temporary, but last longer than a second.
 */
function answeredFailure(error: Sdk.APIError): Failure {
  const { status } = error;
  const isDown = status === undefined ? isDownType(error) : status >= 500;
  if (!isDown && ![408, 409, 429].includes(status ?? 0))
    return { code: 'provider_rejected', isPassing: false };
  return {
    code: 'provider_unavailable',
    isPassing: isDown,
    retryAfterSeconds: retryAfterOf(error.headers),
  };
}

/** An error in the middle of a stream has no status, only a type. */
function isDownType(error: Sdk.APIError): boolean {
  return error.type === 'overloaded_error' || error.type === 'api_error';
}

/** An hour. A longer wait is a mistake, and the visitor has left long before. */
const LONGEST_RETRY_AFTER_SECONDS = 3600;

function retryAfterOf(headers: Headers | undefined): number | undefined {
  const text = headers?.get('retry-after') ?? '';
  const seconds = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  return seconds >= 1 && seconds <= LONGEST_RETRY_AFTER_SECONDS ? seconds : undefined;
}
