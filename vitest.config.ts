import { defineConfig } from 'vitest/config';

const withPostgres = { globalSetup: ['tests/support/global-setup.ts'] };

export default defineConfig({
  test: {
    testTimeout: 20_000,
    hookTimeout: 30_000,
    // Without it two cores get one worker, and most of a test's time is waiting.
    maxWorkers: 2,
    projects: [
      { extends: true, test: { name: 'unit', include: ['tests/unit/**/*.test.ts'] } },
      {
        extends: true,
        test: {
          name: 'types',
          include: [],
          typecheck: { enabled: true, only: true, include: ['tests/types/**/*.test-d.ts'] },
        },
      },
      {
        extends: true,
        test: { name: 'database', include: ['tests/database/**/*.test.ts'], ...withPostgres },
      },
      { extends: true, test: { name: 'browser', include: ['tests/browser/**/*.test.ts'], ...withPostgres } },
      { extends: true, test: { name: 'http', include: ['tests/http/**/*.test.ts'], ...withPostgres } },
    ],
  },
});
