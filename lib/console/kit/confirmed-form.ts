import * as z from 'zod';

import { Problem } from '../../platform/http/problem.ts';
import { requireValid, validated } from '../../platform/http/validated.ts';
import type { Content } from '../../platform/http/validated.ts';
import { CONFIRMED_ABOVE } from './preview.ts';

/** Fields of the form beyond the request: the page it came from, and the number typed to confirm. */
const confirmedForm = z.looseObject({ confirm: z.string().optional(), next: z.string().optional() });

/** @throws Problem 409 `count_changed` unless as many stand under a name as were previewed. */
export function requireCount(count: number, expected: number | undefined, done: string): void {
  if (expected === undefined || count === expected) return;
  const stand = count === 1 ? 'delivery stands' : 'deliveries stand';
  throw new Problem('count_changed', {
    detail: `Nothing was ${done}: ${count} ${stand} under this name, not ${expected}. Preview it again.`,
  });
}

/**
 * Reads the form of a preview, whose number has to be typed where it is large.
 *
 * @throws Problem 400 `validation_failed` or `not_confirmed`.
 */
export function readConfirmedForm<Request extends { readonly expectedCount?: number | undefined }>(
  content: Content,
  form: z.ZodType<Request>,
): Request {
  const { confirm, next: _, ...fields } = validated(content, confirmedForm);
  const request = requireValid(fields, form);
  const { expectedCount = 0 } = request;
  const isTyped = confirm?.replaceAll(/\D/g, '') === String(expectedCount);
  if (!isTyped && (confirm !== undefined || expectedCount > CONFIRMED_ABOVE)) {
    throw new Problem('not_confirmed', { detail: `Type ${expectedCount} to confirm.` });
  }
  return request;
}
