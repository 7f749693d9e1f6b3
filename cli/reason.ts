import type { Given } from './arguments.ts';
import { misused } from './failure.ts';

/** The option of every command that acts. */
export const REASON = { reason: { value: '<text>', help: 'recorded in the operator log' } } as const;

/** @param example the command line with a reason, without `npx postbud`. @throws Failure without a reason. */
export function requireReason(given: Given, example: string): string {
  const reason = given.text('reason')?.trim();
  if (reason) return reason;
  throw misused(
    '--reason is missing: it is recorded in the operator log.',
    `For example: npx postbud ${example}`,
  );
}
