import { createRequire } from 'node:module';

import type * as Tldts from 'tldts';

/** Scheme, host and port. One label of the host may be a star, or have one in it. */
const PATTERN = /^https?:\/\/(?<host>[a-z0-9*-]+(?:\.[a-z0-9*-]+)*)(?::\d{1,5})?$/;

/**
 * Tells what is wrong with an entry of `CORS_ORIGINS`.
 *
 * A star may match only names that the owner of the site has given away. Under a public suffix anybody can have one,
 * be it `co.uk` or `vercel.app`, and which suffixes are public no rule tells: that takes the Public Suffix List.
 *
 * @returns undefined for one that is right, else what to write.
 * @see https://publicsuffix.org/
 */
export function wrongInOrigin(entry: string): string | undefined {
  const { host } = PATTERN.exec(entry)?.groups ?? {};
  if (host === undefined || entry.split('*').length > 2) {
    return 'an entry is not an origin; separate origins with commas, for example https://www.example.no,https://*.preview.example.no';
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
  return `${entry} lets pages of strangers call; put a name of your own behind the star, for example ${example}`;
}

/**
 * Loads the list at the first star: to read its 135 KB takes several milliseconds of a cold start, for nothing in most
 * functions. By `require`, which can wait for that and needs no promise. In a bundle it finds the copy in there; the
 * sources, which are modules, have none.
 */
function suffixList(): typeof Tldts {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what the package exports
  return (
    typeof require === 'function' ? require('tldts') : createRequire(import.meta.url)('tldts')
  ) as typeof Tldts;
}
