import { randomUUID } from 'node:crypto';

import * as z from 'zod';

import type { Config, TurnstileSettings } from '../platform/config.ts';
import { isHostOfPage } from '../platform/http/cors.ts';
import { deepestCodeOf } from '../platform/http/no-connection.ts';
import { Problem } from '../platform/http/problem.ts';
import type { Budgeted } from '../platform/http/visit.ts';
import { log } from '../platform/log.ts';
import { forwardedAddress } from '../platform/rate-limit/visitors.ts';
import { SECOND } from '../platform/time.ts';
import type { Source } from './counts.ts';

/** The header with the token, and the field that Turnstile's widget adds to a form. */
export const TOKEN_NAME = 'cf-turnstile-response';

/** The header, for the description of an endpoint. */
export const TOKEN_PARAMETER = {
  in: 'header',
  name: TOKEN_NAME,
  description: 'The token of Turnstile’s widget, which a visitor above a rate has to send.',
  schema: z.string(),
} as const;

/** What became of a call above the rate. */
type VerificationOutcome = 'verified' | 'verification_required' | 'verification_failed' | 'verification_away';

/** A call that may have to prove that a person makes it. */
export interface Verifying {
  /** Has the secret, the pages whose tokens are taken, and whether the visitor's address is believed. */
  readonly config: Pick<Config, 'turnstile' | 'cors' | 'deployed'>;
  readonly request: Request;
  /** The token of a form's field. */
  readonly field?: string | undefined;
  /** The action that the widget may name. */
  readonly action: Source;
  readonly requestId: string;
  readonly count: (outcome: VerificationOutcome) => void;
}

/**
 * Asks for a proof that a person makes a call, above half of any limit of its visitor, of its network's share or of the
 * day's budget. Below that, and without a secret, nothing is asked for.
 *
 * A call without the proof is given back. Where Turnstile does not answer, or refuses the secret, the call passes within
 * its ordinary limits: that is logged and counted.
 *
 * @returns the counted call.
 * @throws Problem 403 `verification_required`, `verification_failed`
 */
export async function verified(budgeted: Budgeted, verifying: Verifying): Promise<Budgeted> {
  const { config, count } = verifying;
  const settings = config.turnstile;
  if (!settings || !budgeted.isAboveHalf) return budgeted;
  const outcome = await verify(settings, verifying);
  count(outcome);
  if (outcome === 'verified' || outcome === 'verification_away') return budgeted;
  await budgeted.giveBack();
  throw new Problem(outcome);
}

const siteverify = z.object({
  success: z.boolean(),
  hostname: z.string().optional(),
  action: z.string().optional(),
  'error-codes': z.array(z.string()).optional(),
});

/** The codes that say that the visitor's token is at fault; others are ours, or Turnstile's. */
const TOKEN_FAULTS: ReadonlySet<string> = new Set([
  'missing-input-response',
  'invalid-input-response',
  'timeout-or-duplicate',
]);

/** As long as Cloudflare's tokens may be. */
const LONGEST_TOKEN = 2048;

/** Cloudflare answers in some 100 ms. */
const TIMEOUT_MS = 2 * SECOND;

/** Cloudflare's secrets for tests, whose answers name `example.com` and no action. */
export const TEST_SECRET = /^[123]x0+AA$/;

/** @see https://developers.cloudflare.com/turnstile/get-started/server-side-validation/ */
async function verify(settings: TurnstileSettings, verifying: Verifying): Promise<VerificationOutcome> {
  const { config, request, field, action, requestId } = verifying;
  const token = request.headers.get(TOKEN_NAME)?.trim() || field;
  if (!token) return 'verification_required';
  if (token.length > LONGEST_TOKEN) return 'verification_failed';
  const away = (reason: string): VerificationOutcome => {
    log('error', 'Turnstile did not verify a call, which passed', { reason, requestId });
    return 'verification_away';
  };
  const remoteip = config.deployed && forwardedAddress(request.headers);
  let answer: z.output<typeof siteverify>;
  try {
    const response = await fetch(`${settings.baseUrl ?? CLOUDFLARE}/turnstile/v0/siteverify`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        secret: settings.secret,
        response: token,
        idempotency_key: randomUUID(),
        ...(remoteip && { remoteip }),
      }),
      // A redirect would carry the secret to an address that nobody configured.
      redirect: 'manual',
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    answer = siteverify.parse(await response.json());
  } catch (error) {
    // Not the message: it may repeat what was sent.
    return away(deepestCodeOf(error) ?? (error instanceof Error ? error.name : typeof error));
  }
  if (!answer.success) {
    const codes = answer['error-codes'] ?? [];
    if (codes.some((code) => TOKEN_FAULTS.has(code))) return 'verification_failed';
    return away(codes.filter((code) => /^[a-z-]{1,40}$/.test(code)).join(' ') || 'no reason given');
  }
  if (TEST_SECRET.test(settings.secret)) return 'verified';
  const isOfThis = !answer.action || answer.action === action;
  return isOfThis && isHostOfPage(config.cors, answer.hostname ?? '') ? 'verified' : 'verification_failed';
}

const CLOUDFLARE = 'https://challenges.cloudflare.com';
