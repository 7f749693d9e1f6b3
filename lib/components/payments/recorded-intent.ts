import type { PaymentPart } from '../../../drizzle/schema.ts';

/** What is recorded of an intent. */
export interface RecordedIntent {
  readonly amountMinor: number;
  readonly currency: string;
  readonly state: 'created' | 'captured' | 'failed' | 'refunded';
  readonly parts: readonly PaymentPart[];
}

/** A statement that cannot be right, as far as is known. */
export class NotPlausible extends Error {
  readonly code = 'not_plausible';
  /** Whether a webhook that has not arrived yet can make it right. */
  readonly mayBecomePlausible: boolean;

  constructor(message: string, { mayBecomePlausible = false } = {}) {
    super(message);
    this.mayBecomePlausible = mayBecomePlausible;
  }
}

export function partOf<State extends PaymentPart['state']>(
  { parts }: RecordedIntent,
  state: State,
  part = '',
): Extract<PaymentPart, { state: State }> | undefined {
  const isIt = (one: PaymentPart): one is Extract<PaymentPart, { state: State }> =>
    one.state === state && one.part === part;
  return parts.find(isIt);
}

export function put(intent: RecordedIntent, part: PaymentPart): RecordedIntent {
  const others = intent.parts.filter((other) => other.state !== part.state || other.part !== part.part);
  return { ...intent, parts: [...others, part] };
}

export function sumOf({ parts }: RecordedIntent, state: 'captured' | 'refunded'): number {
  return parts.filter((part) => part.state === state).reduce((sum, part) => sum + part.amountMinor, 0);
}

/** @throws NotPlausible */
export function requireCurrency(intent: RecordedIntent, currency: string): void {
  if (currency === intent.currency.toUpperCase()) return;
  throw new NotPlausible(`the amount is in ${currency}, but the intent is in ${intent.currency}`);
}

/** @throws NotPlausible */
export function requireAtMost(
  amountMinor: number,
  most: number,
  what: 'reservations' | 'captures' | 'refunds' | 'releases',
  whose: string,
  options?: { readonly mayBecomePlausible: boolean },
): void {
  if (amountMinor <= most) return;
  throw new NotPlausible(`the ${what} would add up to ${amountMinor}, more than ${whose} ${most}`, options);
}
