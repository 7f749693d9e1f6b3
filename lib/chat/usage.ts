import * as z from 'zod';

import type { TokenUse } from './cost.ts';

const count = z.number().nonnegative().nullish();

/** What the provider reports of tokens; a prompt's cached parts are counted apart. */
export const usage = z.object({
  input_tokens: count,
  cache_creation_input_tokens: count,
  cache_read_input_tokens: count,
  output_tokens: count,
});

/** @param known what was reported before, of which a later report may leave out a part. */
export function tokenUseOf(reported: z.output<typeof usage>, known?: TokenUse): TokenUse {
  const input =
    (reported.input_tokens ?? 0) +
    (reported.cache_creation_input_tokens ?? 0) +
    (reported.cache_read_input_tokens ?? 0);
  return { input: input || (known?.input ?? 0), output: reported.output_tokens ?? known?.output ?? 0 };
}
