import type { Config } from '../../platform/config.ts';
import { networkDays } from '../../platform/rate-limit/networks.ts';
import type { VisitorLimit } from '../../platform/rate-limit/visitors.ts';
import { DAY, MINUTE } from '../../platform/time.ts';

/**
 * Extra tries: the people of a town hall behind one address make a few typing errors in ten minutes, a program makes
 * thousands.
 */
const TYPING_ERRORS = 50;

/** One visitor's share of a day's budget: five in ten minutes would be 720 in a day. */
const PART_OF_DAY = 1 / 10;

/**
 * The limits of one visitor, for inquiries and for tries. A customer with many networks gets two or four times the
 * limit of one visitor, not a limit for each network.
 */
export function inquiryLimits(rates: Config['rates']): readonly VisitorLimit[] {
  const { inquiryPer10Minutes: limit, inquiryDailyBudget } = rates;
  const perDay = Math.max(limit, Math.floor(inquiryDailyBudget * PART_OF_DAY));
  const tenMinutes = { windowMs: 10 * MINUTE, onlyValid: true };
  return [
    { name: 'inquiry-tries', limit: limit + TYPING_ERRORS, windowMs: 10 * MINUTE },
    { ...tenMinutes, name: 'inquiry', limit },
    { ...tenMinutes, name: 'inquiry-56', limit: limit * 2, network: 56 },
    { ...tenMinutes, name: 'inquiry-48', limit: limit * 4, network: 48 },
    { name: 'inquiry-day', limit: perDay, windowMs: DAY, onlyValid: true },
    ...networkDays('inquiry-day', perDay, inquiryDailyBudget).map((day) => ({ ...day, onlyValid: true })),
  ];
}
