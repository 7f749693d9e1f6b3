import { clockAhead } from './clock.ts';
import { halfOpens } from './half-open.ts';
import { isolation } from './isolation.ts';
import { lasting } from './lasting.ts';
import { pooler } from './pooler.ts';
import { prepared } from './prepared.ts';
import { restarts } from './restart.ts';
import { starts } from './start.ts';
import { statementLimit } from './statement-limit.ts';
import { strangeRows } from './strange-rows.ts';
import type { Surrounding } from './surrounding.ts';

export const SURROUNDINGS: readonly Surrounding[] = [
  ...isolation,
  ...restarts,
  ...halfOpens,
  prepared,
  clockAhead,
  pooler,
  ...lasting,
  statementLimit,
  ...starts,
  ...strangeRows,
];
