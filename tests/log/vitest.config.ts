import { defineConfig } from 'vitest/config';

import { newCore } from './new-core.ts';

/**
 * The tests of the core of release 2.0, and those of today's promises that it keeps already. Not a part of `npm test`: nothing
 * calls this core yet.
 */
export default defineConfig({
  plugins: [newCore()],
  test: {
    root: new URL('../..', import.meta.url).pathname,
    globalSetup: ['tests/support/global-setup.ts'],
    isolate: false,
    setupFiles: ['tests/support/own-modules.ts'],
    server: { deps: { inline: ['uuid'] } },
    testTimeout: 90_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 30_000, interval: 20 } },
    restoreMocks: true,
    maxWorkers: 3,
    include: ['tests/log/*.test.ts', 'tests/database/{rules,shared-commits,transactions}.test.ts'],
  },
});
