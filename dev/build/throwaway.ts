import { execFileSync } from 'node:child_process';

/**
 * Tells whether a build may overwrite the functions' files: only where a program made the checkout and nobody works in
 * it, as on Vercel or a CI runner. The variable `CI` alone does not say so, because many a developer's shell sets it.
 *
 * @returns null if it may, else what speaks against it.
 */
export function whyKept(root: URL, { VERCEL, CI = '' }: NodeJS.ProcessEnv): string | null {
  if (VERCEL !== '1') return 'this is not Vercel’s build';
  if (/^(|0|false)$/i.test(CI)) return 'this is not a CI runner (CI=true)';
  if (lines(root, 'status', '--porcelain', '--', 'api').length > 0) return 'api/ has uncommitted changes';
  // The reflog of a runner's clone holds only the clone, fetches and checkouts.
  if (
    lines(root, 'log', '--walk-reflogs', '--format=%gs', 'HEAD').some((entry) =>
      /^(commit|rebase)\b/.test(entry),
    )
  )
    return 'somebody commits in this checkout';
  return null;
}

/** @returns nothing where there is no repository, as in an upload or an image. */
function lines(root: URL, ...args: string[]): string[] {
  try {
    const text = execFileSync('git', args, {
      cwd: root,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    return text.split('\n').filter(Boolean);
  } catch {
    return [];
  }
}
