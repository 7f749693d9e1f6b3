import { v7 as uuidv7 } from 'uuid';

import { noteDue } from '../../../platform/db/commits.ts';
import type { Database } from '../../../platform/db/connect.ts';
import { driverOf, run } from '../../../platform/db/statement.ts';

/** The deliveries that a pause holds: those of one subscription, or of all subscriptions of a subscriber. */
export interface Paused {
  readonly subscriber: string;
  /** Null: all its topics. */
  readonly topic: string | null;
}

/**
 * Pauses a subscriber: its deliveries wait until it is resumed. Records the operator and the reason.
 *
 * Relays that hold one of its lanes stop at the end of their slice, within seconds. No delivery fails by waiting.
 *
 * @returns false when it was paused already: the earlier pause stays, with its operator and reason.
 */
export async function pause(
  db: Database,
  { subscriber, topic }: Paused,
  by: string,
  reason: string,
): Promise<boolean> {
  const paused = await run(driverOf(db), {
    text: PAUSE,
    values: [subscriber, topic ?? '', by, reason, uuidv7()],
  });
  return paused.length > 0;
}

/** Resumes a subscriber and records the operator. @returns whether it was paused. */
export async function resume(
  db: Database,
  { subscriber, topic }: Paused,
  by: string,
  reason: string | null,
): Promise<boolean> {
  const resumed = await run(driverOf(db), {
    text: RESUME,
    values: [subscriber, topic ?? '', by, reason, uuidv7()],
  });
  if (resumed.length === 0) return false;
  noteDue(db);
  return true;
}

const PAUSE = `
  with paused as (
    insert into pauses (subscriber, topic, paused_at, paused_by, reason)
    values ($1::text, $2::text, clock_timestamp(), $3::text, $4::text)
    on conflict (subscriber, topic) do nothing
    returning *
  )
  insert into operator_actions (id, at, operator, action, topic, subscriber, reason)
  select $5::uuid, paused_at, paused_by, 'pause', nullif(topic, ''), subscriber, reason from paused
  returning id`;

const RESUME = `
  with resumed as (
    delete from pauses where subscriber = $1::text and topic = $2::text returning *
  )
  insert into operator_actions (id, at, operator, action, topic, subscriber, reason)
  select $5::uuid, clock_timestamp(), $3::text, 'resume', nullif(topic, ''), subscriber, $4::text from resumed
  returning id`;
