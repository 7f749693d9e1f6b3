import type { Config } from '../../platform/config.ts';
import type { VisitorLimit } from '../../platform/rate-limit/visitors.ts';
import { DAY, MINUTE } from '../../platform/time.ts';

/** The limits of one visitor. A whole town hall behind one address may be one visitor. */
export function chatLimits({ chatPerMinute, chatPerDay }: Config['rates']): readonly VisitorLimit[] {
  return [
    { name: 'chat-min', limit: chatPerMinute, windowMs: MINUTE },
    { name: 'chat-day', limit: chatPerDay, windowMs: DAY },
  ];
}
