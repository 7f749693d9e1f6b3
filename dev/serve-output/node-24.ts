import { execFileSync } from 'node:child_process';

/** The Node that functions run on, as `.vc-config.json` has it: this one, or what npm has of it. */
export function node24(): string {
  if (process.versions.node.startsWith('24.')) return process.execPath;
  return execFileSync('npx', ['-y', '-p', 'node@24', 'node', '-p', 'process.execPath'], {
    encoding: 'utf8',
  }).trim();
}
