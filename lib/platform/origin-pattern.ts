import { createRequire } from 'node:module';

import type * as Tldts from 'tldts';

const ORIGINS =
  'must be origins separated by commas, for example https://www.example.no,https://*.preview.example.no';

/** An entry of `CORS_ORIGINS` as browsers write its origin; one label of its host may have a star. */
type Entry = { readonly origin: string } | { readonly wrong: string };

/**
 * Reads an entry of `CORS_ORIGINS` in any spelling: capitals, a default port, a slash at the end, letters such as `æ`.
 *
 * A star may match only names that the site's owner gives out. Under a public suffix, such as `co.uk` or `vercel.app`,
 * anybody can register a name, and only the Public Suffix List knows which suffixes are public.
 *
 * @param place of the entry in the list, from 1. What is no origin is not repeated: it may be a secret.
 * @returns the origin, or what the variable must be.
 * @see https://url.spec.whatwg.org/#concept-url-origin
 * @see https://publicsuffix.org/
 */
export function readOrigin(entry: string, place: number): Entry {
  const isWeb = /^https?:\/\/[^\s/\\]+[^\s\\]*$/i.test(entry);
  if (!isWeb || !URL.canParse(entry)) return { wrong: `${ORIGINS}: ${faultOf(entry, place)}` };
  const { origin, href, hostname } = new URL(entry);
  if (href !== `${origin}/`) {
    return { wrong: `${ORIGINS}: entry ${place} is longer than an origin. Write ${origin}` };
  }
  if (!hostname.includes('*')) return { origin };
  if (!ONE_STAR.test(hostname)) {
    return { wrong: `${ORIGINS}: ${origin} may have one star, in a label of a to z, digits and hyphens` };
  }
  return ofStrangers(hostname, origin) ?? { origin };
}

/** Without a dot at the end. A label with other letters would be encoded together with its star. */
const ONE_STAR = /^(?:[\w-]+\.)*(?!xn--)[\w-]*\*[\w-]*(?:\.[\w-]+)*$/;

function faultOf(entry: string, place: number): string {
  if (entry === '*') return 'a star alone would let every page call';
  if (entry === 'null') return 'null is the origin of every page that hides its own';
  const [, scheme] = /^([a-z][a-z0-9+.-]*):\/\//i.exec(entry) ?? [];
  if (scheme === undefined) return `entry ${place} begins with neither https:// nor http://`;
  return /^https?$/i.test(scheme)
    ? `entry ${place} has no valid host or port`
    : `entry ${place} begins with ${scheme}://, not with https:// or http://`;
}

/** @returns what is wrong with a star that strangers' names could match. */
function ofStrangers(host: string, origin: string): Entry | undefined {
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
  return {
    wrong: `must have a name of your own behind a star, for example ${example}: ${origin} lets the pages of strangers call`,
  };
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
