import { getDeadline, waitUntil } from '@vercel/functions';

import { createKick } from '../bus/relay/kick.ts';
import type { AttachedSubscriber } from '../bus/subscribers/subscriber.ts';
import { endpointsWithSharedSecrets, readConfig, readable, wrongVariables } from '../platform/config.ts';
import type { Config } from '../platform/config.ts';
import { onDue, reportDue } from '../platform/db/commits.ts';
import { connect } from '../platform/db/connect.ts';
import type { Database } from '../platform/db/connect.ts';
import type { VisitorLimits } from '../platform/http/visit.ts';
import { handlersUntil as untilLifeEnds } from '../platform/lifetime.ts';
import { log, logError } from '../platform/log.ts';
import { createLimiter } from '../platform/rate-limit/create-limiter.ts';
import type { Limiter } from '../platform/rate-limit/limiter.ts';
import { createVisitors } from '../platform/rate-limit/visitors.ts';
import type { VisitorLimit, Visitors } from '../platform/rate-limit/visitors.ts';
import { misspeltVariables } from './misspelt-variables.ts';
import { refusalsOf, subscribersOf } from './registry.ts';
import type { Refusal } from './registry.ts';
import { withSmokeTests } from './smoke-test.ts';
import { HealthRecorder } from './subscriber-health/recorder.ts';

// Shared by the functions of one process, which serves many requests at the same time: one pool, one kick.
let read: Config | undefined;
let opened: Promise<Database> | undefined;
let attached: readonly AttachedSubscriber[] | undefined;
let relayed: readonly AttachedSubscriber[] | undefined;
let refused: readonly Refusal[] | undefined;
let counting: Limiter | undefined;
let visitors: Visitors | undefined;

/** The configuration. Invalid variables are logged once; reading one throws InvalidConfiguration. */
export function config(): Config {
  if (read) return read;
  read = readConfig();
  for (const { variable, message } of wrongVariables())
    log('error', 'an environment variable is invalid; features that need it are off', {
      variable,
      reason: message,
    });
  for (const { variable, message: reason } of misspeltVariables(read.setVariables)) {
    // Other programs have variables that begin so, too.
    const level = variable.startsWith('WEBHOOK_') ? 'warn' : 'error';
    log(level, 'an environment variable is invalid; it has no effect', { variable, reason });
  }
  const shared = endpointsWithSharedSecrets(read.webhooks);
  if (shared.length > 0) log('warn', 'webhook endpoints have a secret in common', { endpoints: shared });
  return read;
}

/** The subscribers attached in this process. @throws InvalidConfiguration for an invalid database setting. */
export function subscribers(): readonly AttachedSubscriber[] {
  return (attached ??= subscribersOf(config(), database));
}

/** The same for relays, which hand over smoke tests too. @throws InvalidConfiguration */
export function relayedSubscribers(): readonly AttachedSubscriber[] {
  return (relayed ??= withSmokeTests(subscribers()));
}

/** The components, or parts of them, that are not attached because a variable is invalid. @throws InvalidConfiguration */
export function refusals(): readonly Refusal[] {
  return (refused ??= refusalsOf(config()));
}

/** Whether this deployment relays: a preview only with `RELAY=on`, and none with an invalid `RELAY`. */
export function relays(): boolean {
  return readable(() => config().relays) ?? false;
}

/** Whether a database is configured, validly or not: a failure to record must then be noticed. */
export function hasDatabase(): boolean {
  return readable(() => config().database)?.kind !== 'none';
}

/** The database, opened at the first call. @throws InvalidConfiguration when none is configured. */
export function database(): Promise<Database> {
  opened ??= open().catch((error: unknown) => {
    opened = undefined;
    throw error;
  });
  return opened;
}

/** The limiter of this process. @throws InvalidConfiguration */
export function limiter(): Limiter {
  return (counting ??= createLimiter(config().redis));
}

/** Makes the limits of one visitor. @param limits from the shortest window on. @throws InvalidConfiguration */
export function perVisitor(limits: readonly VisitorLimit[]): VisitorLimits {
  const { deployed, redis } = config();
  // Instances that share a Redis share its token, and so derive the same keys for visitors.
  visitors ??= createVisitors({ isBehindPlatform: deployed, secret: redis?.token });
  return { limiter: limiter(), visitors, limits };
}

/** The time by which handlers of the current function must have ended; see `RelayOptions`. */
export function handlersUntil(): number {
  return untilLifeEnds(getDeadline());
}

/** Has the relay of this process look for due deliveries at once, as an emit does. @throws InvalidConfiguration */
export async function kick(): Promise<void> {
  reportDue(await database());
}

async function open(): Promise<Database> {
  const { db } = await connect();
  if (!relays()) return db;
  const kickOwn = createKick({
    db,
    subscribers: relayedSubscribers(),
    waitUntil,
    onError: (error) => logError('the relay stopped', error),
    handlersUntil,
    // On a laptop the terminal is for people, who use the console.
    isLogged: config().deployed,
  });
  onDue(db, kickOwn);
  HealthRecorder.of(db);
  return db;
}
