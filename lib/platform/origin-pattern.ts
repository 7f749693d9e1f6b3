import { createRequire } from 'node:module';

import type * as Tldts from 'tldts';

/** Scheme, host and port. One label of the host may be a star, or have one in it. */
const PATTERN = /^https?:\/\/(?<host>[a-z0-9*-]+(?:\.[a-z0-9*-]+)*)(?::\d{1,5})?$/;

/**
 * Checks an entry of `CORS_ORIGINS`.
 *
 * A star may match only names that the site's owner gives out. Under a public suffix, such as `co.uk` or `vercel.app`,
 * anybody can register a name, and only the Public Suffix List knows which suffixes are public.
 *
 * @returns undefined for a valid entry, else what the variable must be.
 * @see https://publicsuffix.org/
 */
export function wrongInOrigin(entry: string): string | undefined {
  const { host } = PATTERN.exec(entry)?.groups ?? {};
  if (host === undefined || entry.split('*').length > 2) {
    return 'must be origins separated by commas, for example https://www.example.no,https://*.preview.example.no';
  }
  if (!host.includes('*')) return undefined;
  const { publicSuffix, isPrivate } = suffixList().parse(host.replace('*', 'x'), {
    allowPrivateDomains: true,
  });
  const suffix = publicSuffix?.split('.') ?? [];
  const labels = host.split('.');
  const behindStar = labels.length - 1 - labels.findIndex((label) => label.includes('*'));
  if (behindStar > suffix.length) return undefined;
  // Hosts of previews write the owner's name last: `site-git-main-team.vercel.app`, `main--site.netlify.app`.
  const isOwnersName = behindStar === suffix.length && /\*[^.]/.test(host);
  if (isPrivate && isOwnersName) return undefined;
  const example = isPrivate ? `https://site-*-team.${publicSuffix}` : 'https://*.preview.example.no';
  return `must have a name of your own behind a star, for example ${example}: ${entry} lets the pages of strangers call`;
}

/**
 * Loads the list at the first star: its 135 KB would add several milliseconds to every cold start, and most functions
 * never need it. `require` loads it late without a promise. A bundle has a `require`, which finds the bundled copy; the
 * sources are modules and make their own.
 */
function suffixList(): typeof Tldts {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the package's exports
  return (
    typeof require === 'function' ? require('tldts') : createRequire(import.meta.url)('tldts')
  ) as typeof Tldts;
}
