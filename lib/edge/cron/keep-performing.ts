import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import type { AlertSettings, Config } from '../../platform/config.ts';
import type { Database } from '../../platform/db/connect.ts';
import { MINUTE, sleep } from '../../platform/time.ts';
import { alertDuty, duties, limitDuty, perform } from './duties.ts';
import { keepStepping } from './keep-stepping.ts';
import { reconciling } from './reconciling.ts';
import { steppedWork } from './stepped-work.ts';

/**
 * Does what the cron does besides relaying, until the signal aborts: the duties once a minute, and longer work in steps. For
 * a process that lives long. Others may do the same beside it.
 */
export async function keepPerforming(options: {
  readonly db: Database;
  readonly subscribers: readonly AttachedSubscriber[];
  readonly settings: () => Pick<Config, 'reconciliations'> & { readonly alerts: AlertSettings };
  readonly signal: AbortSignal;
  /** Called once a minute. Must not reject. */
  readonly heartbeat?: () => Promise<void>;
}): Promise<void> {
  const { db, subscribers, settings, signal, heartbeat } = options;
  const attached = () => subscribers;
  const toDo = [...duties, limitDuty(attached), alertDuty(() => settings().alerts)];
  const work = [...steppedWork(subscribers), reconciling(() => settings().reconciliations)];
  const performForever = async () => {
    while (!signal.aborted) {
      await perform(toDo, db);
      await heartbeat?.();
      await sleep(MINUTE, signal);
    }
  };
  const stepping = work.map((one) => keepStepping(one, { db, until: Infinity, signal }));
  await Promise.all([performForever(), ...stepping]);
}
