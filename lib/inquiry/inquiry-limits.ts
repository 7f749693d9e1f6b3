import type { Config } from '../config.ts';
import type { Limit } from '../rate-limit/limiter.ts';
import { MINUTE } from '../time.ts';

/** How often one visitor may send the form. */
export function inquiryLimits({ inquiryPer10Minutes }: Config['rates']): readonly Limit[] {
  return [{ name: 'inquiry', limit: inquiryPer10Minutes, windowMs: 10 * MINUTE }];
}
