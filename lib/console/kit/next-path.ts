import { HOME } from './links.ts';

/**
 * Accepts only paths of the console as the next page, so that no link to us leads elsewhere.
 *
 * @returns the path with its query; the overview's for anything else.
 */
export function nextPath(wanted: string | null | undefined): string {
  // URL parsers read a backslash as a slash and drop tabs and line breaks; our paths contain none of them.
  if (!wanted || wanted.length > LONGEST || !/^\/[\x21-\x5b\x5d-\x7e]*$/.test(wanted)) return HOME;
  const base = 'https://console.invalid';
  if (!URL.canParse(wanted, base)) return HOME;
  const { origin, pathname, search } = new URL(wanted, base);
  return origin === base && PAGE.test(pathname) ? pathname + search : HOME;
}

/** A selection of a hundred deliveries, with room. */
const LONGEST = 8000;

/** Our paths need no escapes and have no empty segments; signing in or out is never the next page. */
const PAGE = new RegExp(String.raw`^${HOME}(?!/sign-(in|out)(/|$))(/[\w.~!$&'()*+,;=:@-]+)*/?$`);
