import { isOfAction } from './done.ts';

/** The console's own path, with which all its paths begin. */
export const HOME = '/platform/event-bus';

/** The longest period that a replay takes: all dead letters. */
export const ALL_TIME = '3650d';

type Query = Readonly<Record<string, string | null | undefined>>;

export const topicPath = (topic: string) => `${HOME}/topics/${encodeURIComponent(topic)}`;

export const asyncApiPath = () => `${catalogPath()}/asyncapi`;

export const subscribersPath = () => `${HOME}/subscribers`;

export const subscriberPath = (subscriber: string, query: Query = {}) =>
  withQuery(`${HOME}/subscribers/${encodeURIComponent(subscriber)}`, query);

export const catalogPath = () => `${HOME}/catalog`;

export const eventsPath = (query: Query = {}) => withQuery(`${HOME}/events`, query);

export const eventPath = (eventId: string) => `${HOME}/events/${encodeURIComponent(eventId)}`;

/** The list of all events with an id or key: `q` alone leads from an event's own id to its page. */
export const eventsWithPath = (q: string) => eventsPath({ q, limit: '50' });

export const deadLettersPath = (query: Query = {}) => withQuery(`${HOME}/dead-letters`, query);

export const deadLetterPath = (deliveryId: string) =>
  `${HOME}/dead-letters/${encodeURIComponent(deliveryId)}`;

/** The preview of a dismissal. */
export const dismissPath = (query: Query) => withQuery(`${HOME}/dismiss`, query);

export const replayPath = (query: Query) => withQuery(`${HOME}/replay`, query);

export const replaysPath = (query: Query = {}) => withQuery(`${HOME}/replays`, query);

export const replayedPath = (replayId: string) => `${HOME}/replays/${encodeURIComponent(replayId)}`;

/** The preview of a backfill. */
export const backfillPath = (query: Query) => withQuery(`${HOME}/backfill`, query);

/** The operator log with the backfills alone. */
export const backfillsPath = (query: Query = {}) => replaysPath({ only: 'backfills', ...query });

export const backfilledPath = (backfillId: string) => `${HOME}/backfills/${encodeURIComponent(backfillId)}`;

export const erasuresPath = (query: Query = {}) => withQuery(`${HOME}/erasures`, query);

export const erasurePath = (erasureId: string) => `${HOME}/erasures/${encodeURIComponent(erasureId)}`;

export const incidentsPath = (query: Query = {}) => withQuery(`${HOME}/incidents`, query);

/** Where alerts go, at the end of the page of incidents. */
export const alertsPath = () => `${incidentsPath()}#alerts`;

export const timersPath = (query: Query = {}) => withQuery(`${HOME}/timers`, query);

export const setAsidePath = () => `${HOME}/set-aside`;

export const incidentPath = (incidentId: string) => `${HOME}/incidents/${encodeURIComponent(incidentId)}`;

/** The page that shows what an operator has just revealed. */
export const revealedPath = (path: string, revealId: string) => withQuery(path, { revealed: revealId });

export const webhooksPath = (query: Query = {}) => withQuery(`${HOME}/webhooks`, query);

/** The same page with other parameters, and without those of what has just been done; null removes one. */
export function withParameters({ pathname, searchParams }: URL, changes: Query): string {
  const kept = [...searchParams].filter(([name]) => name !== 'revealed' && !isOfAction(name));
  return withQuery(pathname, { ...Object.fromEntries(kept), ...changes });
}

function withQuery(path: string, query: Query): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value) parameters.append(name, value);
  return parameters.size === 0 ? path : `${path}?${parameters.toString()}`;
}
