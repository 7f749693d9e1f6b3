import { getDeadline, waitUntil } from '@vercel/functions';

import { createKick } from '../bus/relay/kick.ts';
import type { AttachedSubscriber } from '../bus/subscribers/subscriber.ts';
import { onDue, reportDue } from '../platform/db/commits.ts';
import { connect } from '../platform/db/connect.ts';
import type { Database } from '../platform/db/connect.ts';
import { handlersUntil as untilLifeEnds } from '../platform/lifetime.ts';
import { logError } from '../platform/log.ts';
import { config, relays } from './postbud.ts';
import { refusalsOf, subscribersOf } from './registry.ts';
import type { Refusal } from './registry.ts';
import { withSmokeTests } from './smoke-test.ts';
import { HealthRecorder } from './subscriber-health/recorder.ts';

// Shared by the functions of one process, as postbud.ts is: one pool, one kick. A function that answers without the database
// imports this only then, since it brings the whole bus.
let opened: Promise<Database> | undefined;
let attached: readonly AttachedSubscriber[] | undefined;
let relayed: readonly AttachedSubscriber[] | undefined;
let refused: readonly Refusal[] | undefined;

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

/** The database, opened at the first call. @throws InvalidConfiguration when none is configured. */
export function database(): Promise<Database> {
  opened ??= open().catch((error: unknown) => {
    opened = undefined;
    throw error;
  });
  return opened;
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
