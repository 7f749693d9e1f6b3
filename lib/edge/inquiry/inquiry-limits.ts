import type { Config } from '../../platform/config.ts';
import type { VisitorLimit } from '../../platform/rate-limit/visitors.ts';
import { MINUTE } from '../../platform/time.ts';

/**
 * Extra tries: the people of a town hall behind one address make a few typing errors in ten minutes, a program makes
 * thousands.
 */
const TYPING_ERRORS = 50;

/**
 * The limits of one visitor, for inquiries and for tries. A customer with many networks gets two or four times the
 * limit of one visitor, not a limit for each network.
 */
export function inquiryLimits({ inquiryPer10Minutes: limit }: Config['rates']): readonly VisitorLimit[] {
  const tenMinutes = { windowMs: 10 * MINUTE, onlyValid: true };
  return [
    { name: 'inquiry-tries', limit: limit + TYPING_ERRORS, windowMs: 10 * MINUTE },
    { ...tenMinutes, name: 'inquiry', limit },
    { ...tenMinutes, name: 'inquiry-56', limit: limit * 2, network: 56 },
    { ...tenMinutes, name: 'inquiry-48', limit: limit * 4, network: 48 },
  ];
}
