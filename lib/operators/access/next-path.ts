import { HOME } from '../page/links.ts';

/**
 * Accepts only paths of the console as the page to go on to, so that no link to us leads elsewhere.
 *
 * @returns the path with its query; the overview's for anything else.
 */
export function nextPath(wanted: string | null | undefined): string {
  // The URL parser reads a backslash as a slash and drops tabs and line breaks: none of it belongs in a path of ours.
  if (!wanted || wanted.length > 2000 || !/^\/[\x21-\x5b\x5d-\x7e]*$/.test(wanted)) return HOME;
  const base = 'https://console.invalid';
  if (!URL.canParse(wanted, base)) return HOME;
  const { origin, pathname, search } = new URL(wanted, base);
  return origin === base && PAGE.test(pathname) ? pathname + search : HOME;
}

/** No path of ours needs an escape, none has an empty segment, and nobody wants to sign in or out next. */
const PAGE = new RegExp(String.raw`^${HOME}(?!/sign-(in|out)/?$)(/[\w.~!$&'()*+,;=:@-]+)*/?$`);
