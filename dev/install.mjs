// Runs before `npm start`, `npm test` and the others, with nothing but Node: installs what they need when it is not
// there yet, or when the lock file is newer than what is.
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
  // npm would empty the folder that it leads to, which another checkout may be using.
  if (lstatSync('node_modules', { throwIfNoEntry: false })?.isSymbolicLink()) {
    console.error(
      'node_modules is a link, and not as new as package-lock.json. Remove it, or run npm ci where it leads.',
    );
    process.exit(1);
  }
  const reason = existsSync(installed)
    ? 'package-lock.json is newer than node_modules'
    : 'there is no node_modules yet';
  console.log(`Installing packages (npm ci): ${reason}.`);
  const { status, error } = spawnSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], {
    stdio: ['ignore', 'inherit', 'inherit'],
    shell: process.platform === 'win32',
  });
  if (status !== 0) {
    const why = error ? `npm could not be run (${error.message})` : 'npm says why above';
    console.error(`The packages could not be installed: ${why}.`);
    process.exit(status ?? 1);
  }
}
