import type { Subscriber } from '../bus/catalog/catalog.ts';
import { limitsOf, topicsOf } from '../bus/subscribers/subscriber.ts';
import type { AttachedSubscriber } from '../bus/subscribers/subscriber.ts';
import { readable } from '../platform/config.ts';
import type { Config, InvalidConfiguration, RemoteSubscriber } from '../platform/config.ts';
import type { Database } from '../platform/db/connect.ts';
import { log } from '../platform/log.ts';
import { audit } from './audit.ts';
import { identity } from './identity.ts';
import { inquiriesBy } from './inquiries.ts';
import { journalFor } from './journal.ts';
import { notificationsBy } from './notifications.ts';
import { paymentsFrom } from './payments.ts';
import { remoteSubscriber } from './remote/remote-subscriber.ts';
import { requireTopics, topicsSentOut } from './sent-out.ts';

type Settings = Pick<Config, 'remoteSubscribers' | 'database'> &
  Partial<Pick<Config, 'mail' | 'standIns' | 'limits' | 'paymentSenders'>>;

/** Opens the database of the handlers that need one of their own. */
type Open = () => Promise<Database>;

/** A component, or a part of it, that is not attached because a variable is invalid. */
export interface Refusal {
  readonly subscriber: string;
  /** Its deliveries of these topics wait. */
  readonly topics: readonly string[];
  readonly error: InvalidConfiguration;
}

/**
 * Lists the attached subscribers: the components in this process, those with a configured URL, and in the embedded mode,
 * unless stand-ins are off, a journal in place of all others. A component may be attached twice: some topics in this process, others elsewhere.
 *
 * What an invalid variable leaves in doubt is not attached and is logged; see `refusalsOf`.
 *
 * @param open only handlers call it: leave it out to list subscribers.
 */
export function subscribersOf(settings: Settings, open: Open = unopened): AttachedSubscriber[] {
  const { attached, refusals } = attachAll(settings, open);
  for (const { subscriber, topics, error } of refusals) {
    const isWhole = topics.length === topicsOf(subscriber).length;
    const { variable, message: reason } = error;
    if (isWhole)
      log('error', 'a subscriber is not attached: its deliveries wait', { subscriber, variable, reason });
    else
      log('error', 'a part of a subscriber is not attached: its deliveries wait', {
        subscriber,
        topics: topics.join(' '),
        variable,
        reason,
      });
  }
  if (settings.database.kind !== 'embedded' || settings.standIns === false) return attached;
  const waiting = refusals.flatMap(({ subscriber, topics }) =>
    topics.map((topic) => `${topic} ${subscriber}`),
  );
  return [...attached, ...journalFor(attached, new Set(waiting))];
}

/**
 * Lists what is not attached because a variable is invalid. No delivery goes where it may not belong, and everything else
 * goes on: with a valid list of topics only the part with the invalid variable waits; if the list itself is missing or
 * invalid, nobody can tell which deliveries belong where, and the whole component waits.
 */
export function refusalsOf(settings: Settings): Refusal[] {
  return attachAll(settings, unopened).refusals;
}

interface Attachments {
  readonly attached: AttachedSubscriber[];
  readonly refusals: Refusal[];
}

function attachAll(settings: Settings, open: Open): Attachments {
  const remote = new Map(settings.remoteSubscribers.map((component) => [component.name, component]));
  const all: Attachments = { attached: [], refusals: [] };
  const here = Object.keys(places).filter((name) => placeOf(name) !== 'elsewhere');
  for (const name of new Set([...here, ...remote.keys()]))
    if (Object.hasOwn(places, name)) attachComponent(name, remote.get(name), { settings, open }, all);
  return all;
}

/** Attaches a component in this process, elsewhere, or each part of it where it belongs. */
function attachComponent(
  name: string,
  remote: RemoteSubscriber | undefined,
  { settings, open }: { readonly settings: Settings; readonly open: Open },
  { attached, refusals }: Attachments,
): void {
  const attach = (topics: readonly string[], part: () => AttachedSubscriber) => {
    const limited = () => withLimits(part(), settings.limits);
    const component = readable(limited, (error) => refusals.push({ subscriber: name, topics, error }));
    if (component) attached.push(component);
  };
  const place = placeOf(name);
  const handled = place === 'elsewhere' ? [] : [...place({}, open).handlers.keys()];
  const sentOut = readable(
    () => (remote ? sentOutOf(remote, handled) : []),
    (error) => refusals.push({ subscriber: name, topics: topicsOf(name), error }),
  );
  if (!sentOut) return;
  const kept = handled.filter((topic) => !sentOut.includes(topic));
  if (place !== 'elsewhere' && kept.length > 0) attach(kept, () => only(kept, place(settings, open)));
  if (remote) attach(sentOut, () => remoteSubscriber(remote));
}

/** Variables overrule what the component sets itself. @throws InvalidConfiguration */
function withLimits(component: AttachedSubscriber, settings: Settings['limits'] = []): AttachedSubscriber {
  const set = settings.find(({ name }) => name === component.name);
  if (!set) return component;
  const own = limitsOf(component.name, { rate: set.rate, concurrency: set.concurrency });
  const { rate = null, concurrency = null } = component.limits ?? {};
  return { ...component, limits: { rate: own?.rate ?? rate, concurrency: own?.concurrency ?? concurrency } };
}

function sentOutOf(remote: RemoteSubscriber, handled: readonly string[]): readonly string[] {
  requireTopics(remote, handled);
  return topicsSentOut(remote);
}

function only(topics: readonly string[], component: AttachedSubscriber): AttachedSubscriber {
  const handlers = [...component.handlers].filter(([topic]) => topics.includes(topic));
  return { ...component, handlers: new Map(handlers) };
}

function placeOf(name: string): Place {
  return Object.entries(places).find(([listed]) => listed === name)?.[1] ?? 'elsewhere';
}

/** A component in this process; `elsewhere` for one that needs its address in `SUBSCRIBER_<NAME>_URL`. */
type Place =
  | ((settings: Partial<Pick<Config, 'mail' | 'paymentSenders'>>, open: Open) => AttachedSubscriber)
  | 'elsewhere';

/** Every subscriber in the catalog. The compiler refuses a name that no topic lists, and a listed name without a place. */
const places: Readonly<Record<Subscriber, Place>> = {
  accounting: 'elsewhere',
  audit: () => audit,
  bookings: 'elsewhere',
  calendar: 'elsewhere',
  identity: () => identity,
  inquiries: ({ mail }) => inquiriesBy(mail),
  integrations: 'elsewhere',
  intelligence: 'elsewhere',
  invoicing: 'elsewhere',
  ledger: 'elsewhere',
  messaging: 'elsewhere',
  notifications: ({ mail }, open) => notificationsBy(mail && { settings: mail, open }),
  payments: ({ paymentSenders }) => paymentsFrom(paymentSenders),
  payouts: 'elsewhere',
  reporting: 'elsewhere',
  resources: 'elsewhere',
  reviews: 'elsewhere',
  seasons: 'elsewhere',
  subscriptions: 'elsewhere',
  support: 'elsewhere',
  tenants: 'elsewhere',
};

/** @throws always: the subscribers were attached to be listed, and handle no events. */
function unopened(): never {
  throw new Error('no database was given to subscribersOf');
}
