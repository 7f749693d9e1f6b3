import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { expect, test } from 'vitest';

import { expectDemo } from '../support/demo.ts';
import { runProgram, startLocalServer } from '../support/local-server.ts';
import { freePort } from '../support/postgres.ts';

test(
  'the demo goes through the functions of the build as through their sources',
  { timeout: 180_000 },
  async () => {
    const DATA_DIR = mkdtempSync(join(tmpdir(), 'postbud-demo-'));
    const server = await startLocalServer({ PORT: `${await freePort()}`, DATA_DIR, DEMO: 'off' });
    try {
      const { code, output } = await runProgram('dev/demo.ts', { DATA_DIR });
      expectDemo(output);
      // The wallet payment waits too, where it was captured behind the one that fails.
      expect(output).toMatch(
        /17 events, 39 deliveries: 3[56] delivered .* 1 failing, [12] pending, 1 dead-lettered/,
      );
      expect(code).toBe(0);
    } finally {
      await server.stop();
      rmSync(DATA_DIR, { recursive: true, force: true });
    }
  },
);
