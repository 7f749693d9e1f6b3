import type { PGlite } from '@electric-sql/pglite';
import type { PgliteDatabase } from 'drizzle-orm/pglite';
import { expectTypeOf, test } from 'vitest';

import type * as Packaged from '../../dev/build/package/test-database.ts';

test('a test bus’s database has what the package declares of it', () => {
  type Real = PgliteDatabase & { $client: PGlite };
  expectTypeOf<Real>().toExtend<Packaged.Database>();
  expectTypeOf<Parameters<Parameters<Real['transaction']>[0]>[0]>().toExtend<Packaged.Transaction>();
});
