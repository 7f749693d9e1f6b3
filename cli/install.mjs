// Runs before `npm start`, `npm test` and other scripts, and needs nothing but Node: installs the packages if they are
// missing or older than the lock file. Its messages and npm's go to stderr: stdout is for the script's results.
import { spawnSync } from 'node:child_process';
import { existsSync, lstatSync, statSync } from 'node:fs';
import process from 'node:process';

const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 20 || (major === 20 && minor < 19)) {
  console.error(`Postbud needs Node 20.19 or newer; this is ${process.versions.node}.`);
  process.exit(1);
}

// npm writes this file at the end of an install: a half-done one does not count.
const installed = 'node_modules/.package-lock.json';
const isFresh = existsSync(installed) && statSync(installed).mtimeMs >= statSync('package-lock.json').mtimeMs;
if (!isFresh) {
  // npm would empty the linked folder, which another checkout may be using.
  if (lstatSync('node_modules', { throwIfNoEntry: false })?.isSymbolicLink()) {
    console.error(
      'node_modules is a link and older than package-lock.json. Remove it, or run npm ci in the linked folder.',
    );
    process.exit(1);
  }
  const reason = existsSync(installed)
    ? 'package-lock.json is newer than node_modules'
    : 'node_modules is missing';
  console.error(`Installing packages (npm ci): ${reason}.`);
  const { status, error } = spawnSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], {
    stdio: ['ignore', 2, 2],
    shell: process.platform === 'win32',
  });
  if (status !== 0) {
    const why = error ? `npm could not be run (${error.message})` : 'see npm’s messages above';
    console.error(`The packages could not be installed: ${why}.`);
    process.exit(status ?? 1);
  }
}
