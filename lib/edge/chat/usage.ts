import * as z from 'zod';

import type { TokenUse } from './cost.ts';

const count = z.number().nonnegative().nullish();

/** The provider's report of tokens; cached parts of a prompt are counted separately. */
export const usage = z.object({
  input_tokens: count,
  cache_creation_input_tokens: count,
  cache_read_input_tokens: count,
  output_tokens: count,
});

/** @param known an earlier report; a later one may leave out parts of it. */
export function tokenUseOf(reported: z.output<typeof usage>, known?: TokenUse): TokenUse {
  const input =
    (reported.input_tokens ?? 0) +
    (reported.cache_creation_input_tokens ?? 0) +
    (reported.cache_read_input_tokens ?? 0);
  return { input: input || (known?.input ?? 0), output: reported.output_tokens ?? known?.output ?? 0 };
}
