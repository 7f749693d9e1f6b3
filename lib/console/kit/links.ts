/** The console's own path, with which all its paths begin. */
export const HOME = '/platform/event-bus';

/** The longest period that a replay takes: all dead letters. */
export const ALL_TIME = '3650d';

type Query = Readonly<Record<string, string | null | undefined>>;

/** Makes the address of a list, or of a preview. */
const listAt =
  (name: string) =>
  (query: Query = {}) =>
    withQuery(`${HOME}/${name}`, query);

/** Makes the address of one of these. */
const oneOf = (name: string) => (id: string) => `${HOME}/${name}/${encodeURIComponent(id)}`;

/** The overview with the quiet topics, too. */
export const ALL_TOPICS = `${HOME}?show=all`;

export const asyncApiPath = listAt('catalog/asyncapi');
export const topicPath = oneOf('topics');
export const subscribersPath = listAt('subscribers');
export const subscriberPath = oneOf('subscribers');
export const eventsPath = listAt('events');
export const eventPath = oneOf('events');
export const timersPath = listAt('timers');
export const deadLettersPath = listAt('dead-letters');
export const deadLetterPath = oneOf('dead-letters');
export const incidentsPath = listAt('incidents');
export const incidentPath = oneOf('incidents');
export const doctorPath = listAt('doctor');
export const webhooksPath = listAt('webhooks');
export const replaysPath = listAt('replays');
export const replayedPath = oneOf('replays');
export const backfilledPath = oneOf('backfills');
export const erasuresPath = listAt('erasures');
export const erasurePath = oneOf('erasures');

// The previews of what operators do.
export const dismissPath = listAt('dismiss');
export const replayPath = listAt('replay');
export const backfillPath = listAt('backfill');

/** The list of all events with an id or key: `q` alone leads from an event's own id to its page. */
export const eventsWithPath = (q: string) => eventsPath({ q, limit: '50' });

/** Where alerts go, at the end of the page of incidents. */
export const alertsPath = () => `${incidentsPath()}#alerts`;

/** The page that shows what an operator has just revealed. */
export const revealedPath = (path: string, revealId: string) => withQuery(path, { revealed: revealId });

/** The same page with other parameters, and without what was revealed; null removes one. */
export function withParameters({ pathname, searchParams }: URL, changes: Query): string {
  const kept = [...searchParams].filter(([name]) => name !== 'revealed');
  return withQuery(pathname, { ...Object.fromEntries(kept), ...changes });
}

function withQuery(path: string, query: Query): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value) parameters.append(name, value);
  return parameters.size === 0 ? path : `${path}?${parameters.toString()}`;
}

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
