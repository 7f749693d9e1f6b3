import { execFileSync } from 'node:child_process';

/** A Node of the version in `.vc-config.json`: the current one, or else from npm. */
export function node24(): string {
  if (process.versions.node.startsWith('24.')) return process.execPath;
  return execFileSync('npx', ['-y', '-p', 'node@24', 'node', '-p', 'process.execPath'], {
    encoding: 'utf8',
  }).trim();
}
