import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { OUTPUT, writeOutput } from '../../dev/build/output.ts';
import { node24 } from '../../dev/serve-output/node-24.ts';

/**
 * `npm run test:artefact`: builds, and runs against the build what can be: on Node 24, from a folder outside the
 * project, where no bundle finds a package that it lacks. See `vitest.config.ts` for what runs how.
 */
const root = new URL('../../', import.meta.url);

/** Of the tests that are named like this the bundles are the subject; those beside them call parts with fakes. */
const CALLS_FUNCTIONS =
  '^ ?(POST /api/chat|GET /|the metrics|whatever is sent|the function|.*goes through the function file)';

const RUNS = [
  ['--project', 'wire'],
  ['--project', 'functions', '--testNamePattern', CALLS_FUNCTIONS],
];

const folder = mkdtempSync(join(tmpdir(), 'postbud-output-'));
try {
  const functions = await writeOutput(root);
  cpSync(fileURLToPath(new URL(OUTPUT, root)), folder, { recursive: true });
  console.log(`${functions.length} functions built, and copied to ${folder}`);
  const node = node24();
  const statuses = RUNS.map((run) => runTests(node, run));
  process.exitCode = Math.max(...statuses);
} finally {
  rmSync(folder, { recursive: true, force: true });
}

function runTests(node: string, args: readonly string[]): number {
  const vitest = fileURLToPath(new URL('node_modules/vitest/vitest.mjs', root));
  const { status } = spawnSync(node, [vitest, 'run', ...args], {
    cwd: fileURLToPath(root),
    stdio: 'inherit',
    env: { ...process.env, POSTBUD_ARTEFACT: folder },
  });
  return status ?? 1;
}
