import pLimit from 'p-limit';
import type { LimitFunction } from 'p-limit';
import pTimeout from 'p-timeout';

import { publishLimits } from '../../bus/deliveries/limits.ts';
import { endSmokeTests } from '../../bus/deliveries/operations/end-smoke-tests.ts';
import { KEEP_MS } from '../../bus/deliveries/prune.ts';
import type { Pruned } from '../../bus/deliveries/prune.ts';
import { rollUpJournal } from '../../bus/deliveries/roll-up.ts';
import type { AttachedSubscriber } from '../../bus/subscribers/subscriber.ts';
import { sendAlerts } from '../../components/alerts/send-alerts.ts';
import { trimIndex } from '../../components/identifiers/trim-index.ts';
import { watchIncidents } from '../../components/incidents/watch.ts';
import { settleSetAside } from '../../components/payments/set-aside.ts';
import { pruneAll } from '../../components/prune.ts';
import { forgetHours } from '../../components/subscriber-health/forget-hours.ts';
import { sampleBacklog } from '../../components/subscriber-health/sample-backlog.ts';
import type { AlertSettings } from '../../platform/config.ts';
import type { Database } from '../../platform/db/connect.ts';
import { logError } from '../../platform/log.ts';
import { onceFor } from '../../platform/once-for.ts';
import { SECOND } from '../../platform/time.ts';
import { emitSurges } from '../webhooks/surges.ts';
import { strikeDailyClock } from './daily-clock.ts';

/**
 * Something that the cron does once a minute, in addition to relaying. Runs overlap, so performing it twice must be
 * harmless.
 */
export interface Duty {
  /** Shown in the log and in the cron's answer when the duty failed. */
  readonly name: string;
  /**
   * Must limit the time of its statements (`limitStatements`): a statement that waits for a lock would keep its
   * connection.
   */
  readonly run: (db: Database) => Promise<Partial<DutyResults>>;
  /** Whether it begins when the others have ended. */
  readonly isLast?: boolean;
}

/** The results of duties in the cron's answer. */
interface DutyResults {
  /** The days whose daily clock was due. */
  readonly struck: readonly string[];
  readonly pruned: Pruned;
}

export interface Performed extends DutyResults {
  /** The names of the duties that failed or did not end in time. */
  readonly undone: readonly string[];
}

export const duties: readonly Duty[] = [
  { name: 'daily clock', run: async (db) => ({ struck: await strikeDailyClock(db) }) },
  {
    name: 'surges of refused webhooks',
    run: async (db) => {
      await emitSurges(db);
      return {};
    },
  },
  {
    name: 'webhooks set aside',
    run: async (db) => {
      await settleSetAside(db);
      return {};
    },
  },
  {
    name: 'incidents',
    run: async (db) => {
      await watchIncidents(db);
      return {};
    },
  },
  {
    name: 'health of subscribers',
    run: async (db) => {
      await sampleBacklog(db);
      await forgetHours(db);
      return {};
    },
  },
  {
    name: 'journal of deliveries',
    run: async (db) => {
      await rollUpJournal(db, Date.now() + ROLL_UP_BUDGET_MS);
      return {};
    },
  },
  {
    name: 'smoke tests',
    run: async (db) => {
      await endSmokeTests(db);
      return {};
    },
  },
  { name: 'pruning', run: async (db) => ({ pruned: await pruneBriefly(db) }) },
  {
    name: 'trimming of the index',
    run: async (db) => {
      await trimIndex(db, KEEP_MS);
      return {};
    },
  },
];

/**
 * Makes the duty that tells operators of incidents. It comes after the one that finds them, so that an incident is
 * reported in the same minute. While it sends, it holds no connection.
 */
export function alertDuty(settings: () => AlertSettings): Duty {
  return {
    name: 'alerts',
    isLast: true,
    run: async (db) => {
      await sendAlerts(db, settings());
      return {};
    },
  };
}

/** Makes the duty that writes the limits of subscribers, and deletes those of subscribers that have none any more. */
export function limitDuty(subscribers: () => readonly AttachedSubscriber[]): Duty {
  return {
    name: 'limits of subscribers',
    run: async (db) => {
      await publishLimits(db, subscribers());
      return {};
    },
  };
}

/** How long a duty may take: even two in a row end before the cron's relaying does, so no function lives longer. */
const DUTY_LIMIT_MS = 30 * SECOND;

/** The cron runs of one process share the pool, and so these. */
const limitOf = onceFor<Database, LimitFunction>(() => pLimit(MAX_DUTIES));

/** Duties at once: each keeps a connection, even while it waits for a lock, and the relay needs one too. */
const MAX_DUTIES = 2;

/** Performs all duties, two at a time, and then those that come last. Never rejects: a duty's error is logged, and the others are still performed. */
export async function perform(toDo: readonly Duty[], db: Database): Promise<Performed> {
  const undone = new Set<Duty>();
  const limit = limitOf(db);
  const performOne = async (duty: Duty) => {
    try {
      return await pTimeout(duty.run(db), { milliseconds: DUTY_LIMIT_MS, message: new DutyOverdue() });
    } catch (error) {
      undone.add(duty);
      logError('a duty of the cron failed', error, { duty: duty.name });
      return {};
    }
  };
  const performAll = async (some: readonly Duty[]) =>
    await Promise.all(some.map((duty) => limit(performOne, duty)));
  const done = await performAll(toDo.filter(({ isLast }) => !isLast));
  done.push(...(await performAll(toDo.filter(({ isLast }) => isLast))));
  return {
    struck: [],
    pruned: { events: 0, deliveries: 0 },
    ...Object.assign({}, ...done),
    undone: toDo.filter((duty) => undone.has(duty)).map(({ name }) => name),
  };
}

/** Enough for a million rows of the journal. */
const ROLL_UP_BUDGET_MS = 10 * SECOND;

/** Enough for some tens of thousands of events, more than arrive in a minute. */
const PRUNE_BUDGET_MS = 1 * SECOND;

async function pruneBriefly(db: Database): Promise<Pruned> {
  return await pruneAll({ db, until: Date.now() + PRUNE_BUDGET_MS, statementLimitMs: DUTY_LIMIT_MS / 2 });
}

/** A duty did not end within its limit. */
class DutyOverdue extends Error {
  readonly code = 'duty_overdue';

  constructor() {
    super(`the duty had not ended after ${DUTY_LIMIT_MS} ms`);
    this.name = 'DutyOverdue';
  }
}
