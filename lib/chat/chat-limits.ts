import type { Config } from '../config.ts';
import type { Limit } from '../rate-limit/limiter.ts';
import { DAY, MINUTE } from '../time.ts';

/** How often one visitor may ask: a whole town hall may be one, behind its one address. */
export function chatLimits({ chatPerMinute, chatPerDay }: Config['rates']): readonly Limit[] {
  return [
    { name: 'chat-min', limit: chatPerMinute, windowMs: MINUTE },
    { name: 'chat-day', limit: chatPerDay, windowMs: DAY },
  ];
}
