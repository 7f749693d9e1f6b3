import type { Config } from '../config.ts';
import { audit } from './audit.ts';
import { remoteSubscriber } from './http.ts';
import { identity } from './identity.ts';
import { journalFor } from './journal.ts';
import { notificationsBy } from './notifications.ts';
import { payments } from './payments.ts';
import type { AttachedSubscriber } from './subscriber.ts';

/** The components that run in this process. */
const inProcess = ({ mail }: Partial<Pick<Config, 'mail'>>) => [
  audit,
  identity,
  notificationsBy(mail),
  payments,
];

/**
 * Who is attached: the components in this process, those that the configuration gives an address, and in the embedded
 * mode a journal in place of all others. An address takes the place of the component in this process.
 */
export function subscribersOf(
  config: Pick<Config, 'remoteSubscribers' | 'database'> & Partial<Pick<Config, 'mail'>>,
): AttachedSubscriber[] {
  const remote = config.remoteSubscribers.map(remoteSubscriber);
  const local = inProcess(config).filter(({ name }) => !remote.some((other) => other.name === name));
  const attached = [...local, ...remote];
  return config.database.kind === 'embedded' ? [...attached, ...journalFor(attached)] : attached;
}
