import * as z from 'zod';

import type { Parameter } from './operation.ts';

export const origin: Parameter = {
  in: 'header',
  name: 'Origin',
  description: 'The origin of the page that calls. Browsers send it; programs leave it out.',
  schema: z.string(),
};
