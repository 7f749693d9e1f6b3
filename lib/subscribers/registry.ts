import type { Subscriber } from '../catalog/catalog.ts';
import { readable } from '../config.ts';
import type { Config } from '../config.ts';
import { log } from '../log.ts';
import { audit } from './audit.ts';
import { remoteSubscriber } from './http.ts';
import { identity } from './identity.ts';
import { journalFor } from './journal.ts';
import { notificationsBy } from './notifications.ts';
import { payments } from './payments.ts';
import type { AttachedSubscriber } from './subscriber.ts';

type Settings = Pick<Config, 'remoteSubscribers' | 'database'> & Partial<Pick<Config, 'mail'>>;

/**
 * Lists the attached subscribers: the components in this process, those with a configured URL, and in the embedded mode a
 * journal in place of all others. A configured URL replaces the component in this process.
 *
 * A component with an invalid variable is left out and logged: only its own deliveries wait.
 */
export function subscribersOf(settings: Settings): AttachedSubscriber[] {
  const attached: AttachedSubscriber[] = [];
  const misconfigured = new Set<string>();
  for (const [name, attach] of Object.entries(componentsOf(settings))) {
    const component = readable(attach, ({ variable, message }) => {
      misconfigured.add(name);
      const fields = { subscriber: name, variable, reason: message };
      log('error', 'a subscriber is not attached: its deliveries wait', fields);
    });
    if (component) attached.push(component);
  }
  if (settings.database.kind !== 'embedded') return attached;
  return [...attached, ...journalFor(attached).filter(({ name }) => !misconfigured.has(name))];
}

/** Lists components by name, so that a URL replaces the component in this process, even when the URL is invalid. */
function componentsOf(settings: Settings): Readonly<Record<string, () => AttachedSubscriber>> {
  const here = Object.entries(places).flatMap(([name, place]) =>
    place === 'elsewhere' ? [] : [[name, () => place(settings)] as const],
  );
  const remote = settings.remoteSubscribers.map(
    (component) => [component.name, () => remoteSubscriber(component)] as const,
  );
  return Object.fromEntries([...here, ...remote]);
}

/** A component in this process; `elsewhere` for one that needs its address in `SUBSCRIBER_<NAME>_URL`. */
type Place = ((settings: Settings) => AttachedSubscriber) | 'elsewhere';

/** Every subscriber in the catalog. The compiler refuses a name that no topic lists, and a listed name without a place. */
const places: Readonly<Record<Subscriber, Place>> = {
  accounting: 'elsewhere',
  audit: () => audit,
  bookings: 'elsewhere',
  calendar: 'elsewhere',
  identity: () => identity,
  integrations: 'elsewhere',
  intelligence: 'elsewhere',
  invoicing: 'elsewhere',
  ledger: 'elsewhere',
  messaging: 'elsewhere',
  notifications: ({ mail }) => notificationsBy(mail),
  payments: () => payments,
  payouts: 'elsewhere',
  reporting: 'elsewhere',
  resources: 'elsewhere',
  reviews: 'elsewhere',
  seasons: 'elsewhere',
  subscriptions: 'elsewhere',
  support: 'elsewhere',
  tenants: 'elsewhere',
};
