import type { Config } from '../config.ts';
import { networkDays } from '../rate-limit/networks.ts';
import type { VisitorLimit } from '../rate-limit/visitors.ts';
import { DAY, MINUTE } from '../time.ts';

/** How often one visitor may ask: a whole town hall may be one, behind its one address. */
export function chatLimits(rates: Config['rates']): readonly VisitorLimit[] {
  const { chatPerMinute, chatPerDay, chatDailyBudget } = rates;
  return [
    { name: 'chat-min', limit: chatPerMinute, windowMs: MINUTE },
    { name: 'chat-day', limit: chatPerDay, windowMs: DAY },
    ...networkDays('chat-day', chatPerDay, chatDailyBudget),
  ];
}
