import { getDeadline, waitUntil } from '@vercel/functions';

import { providersWithSharedSecrets, readConfig, readable, wrongVariables } from './config.ts';
import type { Config } from './config.ts';
import { onDue } from './db/commits.ts';
import { connect } from './db/connect.ts';
import type { Database } from './db/connect.ts';
import { handlersUntil as untilLifeEnds } from './lifetime.ts';
import { log, logError } from './log.ts';
import { createLimiter } from './rate-limit/create-limiter.ts';
import type { Limiter } from './rate-limit/limiter.ts';
import type { VisitorLimits } from './http/visit.ts';
import { createVisitors } from './rate-limit/visitors.ts';
import type { VisitorLimit, Visitors } from './rate-limit/visitors.ts';
import { createKick } from './relay/kick.ts';
import { subscribersOf } from './subscribers/registry.ts';
import type { AttachedSubscriber } from './subscribers/subscriber.ts';

// What the functions of one process share. An instance serves many requests side by side: one pool, one kick.
let read: Config | undefined;
let opened: Promise<Database> | undefined;
let attached: readonly AttachedSubscriber[] | undefined;
let kickRelay: (() => void) | undefined;
let counting: Limiter | undefined;
let visitors: Visitors | undefined;

/** The environment; what is wrong with it is logged once. A part of it that is wrong throws InvalidConfiguration. */
export function config(): Config {
  if (read) return read;
  read = readConfig();
  for (const { variable, message } of wrongVariables())
    log('error', 'a variable is wrong: what needs it does not work', { variable, reason: message });
  const shared = providersWithSharedSecrets(read.webhooks);
  if (shared.length > 0) log('warn', 'webhook providers have a secret in common', { providers: shared });
  return read;
}

/** Who is attached in this process. @throws InvalidConfiguration when it can't be known which database there is. */
export function subscribers(): readonly AttachedSubscriber[] {
  return (attached ??= subscribersOf(config()));
}

/** Whether this deployment relays. A preview leaves that to others, unless it is told to; so does a wrong `RELAY`. */
export function relays(): boolean {
  return readable(() => config().relays) ?? false;
}

/** Whether a database is configured, be it wrongly: what is not recorded then must not go unnoticed. */
export function hasDatabase(): boolean {
  return readable(() => config().database)?.kind !== 'none';
}

/** The database, opened at the first call. @throws InvalidConfiguration when there is none to open. */
export function database(): Promise<Database> {
  opened ??= open().catch((error: unknown) => {
    opened = undefined;
    throw error;
  });
  return opened;
}

/** What counts calls. @throws InvalidConfiguration */
export function limiter(): Limiter {
  return (counting ??= createLimiter(config().redis));
}

/** Limits how often one visitor may call. @param limits from the shortest window on. @throws InvalidConfiguration */
export function perVisitor(limits: readonly VisitorLimit[]): VisitorLimits {
  const { deployed, redis } = config();
  // Whoever counts together in one Redis has its token in common, and so knows visitors by the same keys.
  visitors ??= createVisitors({ isBehindPlatform: deployed, secret: redis?.token });
  return { limiter: limiter(), visitors, limits };
}

/** Has a relay run soon; see `createKick`. Does nothing before the database is open: nothing was emitted then. */
export function kick(): void {
  kickRelay?.();
}

/** By when the handlers must have ended that the function of this request begins; see `RelayOptions`. */
export function handlersUntil(): number {
  return untilLifeEnds(getDeadline());
}

async function open(): Promise<Database> {
  const { db } = await connect();
  if (!relays()) return db;
  kickRelay = createKick({
    db,
    subscribers: subscribers(),
    waitUntil,
    onError: (error) => logError('the relay stopped', error),
    handlersUntil,
    // A laptop's terminal is for people, who have the console.
    isLogged: config().deployed,
  });
  onDue(db, kickRelay);
  return db;
}
