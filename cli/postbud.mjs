#!/usr/bin/env node
// `npx postbud`: needs nothing but Node, because it first installs missing packages, as the npm scripts do.
import { spawnSync } from 'node:child_process';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../', import.meta.url));
// Its messages and npm's go to stderr: stdout is for results.
const { status } = spawnSync(process.execPath, ['dev/install.mjs'], { cwd: root, stdio: ['ignore', 2, 2] });
if (status !== 0) process.exit(status ?? 1);

const { register } = await import('tsx/esm/api');
register();
const { main } = await import('./main.ts');
await main();
