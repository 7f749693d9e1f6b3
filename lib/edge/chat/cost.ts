/** The tokens of a call, as the provider counts them. */
export interface TokenUse {
  /** The whole prompt, cached parts included. */
  readonly input: number;
  readonly output: number;
}

/** US dollars for a million tokens. */
interface Rate {
  readonly input: number;
  readonly output: number;
}

/** A prompt longer than this is charged at the long rate, all of it. In tokens. */
const LONG_PROMPT = 100_000;

/** By model, as the provider publishes them; read on 2026-11-21. */
const rates: Readonly<Record<string, { readonly short: Rate; readonly long: Rate } | undefined>> = {
  'claude-haiku-5-5': { short: { input: 0.1, output: 0.5 }, long: { input: 0.5, output: 2.5 } },
};

/**
 * Estimates the cost of a call. The bill may differ, through a cache or a discount.
 *
 * @returns US dollars; null for a model whose price is not known here.
 */
export function costUsd(model: string, { input, output }: TokenUse): number | null {
  const rate = Object.hasOwn(rates, model) ? rates[model] : undefined;
  if (!rate) return null;
  const { input: perInput, output: perOutput } = input > LONG_PROMPT ? rate.long : rate.short;
  // To a ten-thousandth of a cent: a short call costs a few of them.
  return Math.round(input * perInput + output * perOutput) / 1_000_000;
}
