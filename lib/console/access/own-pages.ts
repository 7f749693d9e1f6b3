import * as z from 'zod';

import type { Parameter } from '../../platform/http/operation.ts';
import type { Limit } from '../../platform/rate-limit/limiter.ts';
import { HOUR, MINUTE } from '../../platform/time.ts';

/** Ten a minute are more than a person needs; sixty an hour are too few to guess tokens. */
export const signInLimits: readonly Limit[] = [
  { name: 'sign-in-min', limit: 10, windowMs: MINUTE },
  { name: 'sign-in-hour', limit: 60, windowMs: HOUR },
];

/** With this header browsers say which page sends a form. */
export const fetchSite: Parameter = {
  in: 'header',
  name: 'Sec-Fetch-Site',
  description:
    'Must be `same-origin`, as browsers send it from pages of the console. Without it, `Origin` is checked.',
  schema: z.string(),
};

/** For examples. */
export const SAME_ORIGIN = { 'Sec-Fetch-Site': 'same-origin' };
