import { and, eq } from 'drizzle-orm';

import { pauses } from '../../../../drizzle/schema.ts';
import type { Database } from '../../../platform/db/connect.ts';
import { driverOf, run } from '../../../platform/db/statement.ts';
import { nearest } from '../../../platform/nearest.ts';
import { subscriberNames, topics } from '../../catalog/catalog.ts';
import { NotActedOn } from './first-of-lane.ts';
import { openRename, openRenames } from './rename-open.ts';
import { takeOver } from './rename-take-over.ts';
import { isKnown, StillListed } from './retire.ts';

/** A subscriber's former name and its present one. */
export interface Rename {
  readonly from: string;
  readonly to: string;
  /** Null: all topics that the former name has deliveries of. */
  readonly topic: string | null;
}

/** Who renames, and for how long this call may work. */
export interface Renaming {
  readonly by: string;
  readonly reason: string;
  /** When to begin no further chunk, in milliseconds since the epoch. What is left then takes another call. */
  readonly until: number;
  /** Only counts. */
  readonly dryRun?: boolean;
  /** Overrides the database's clock in tests. */
  readonly now?: Date;
}

/** What stood under the former name in one topic when the call began, and what the call did with it. */
export interface RenamedTopic {
  readonly topic: string;
  /** Deliveries that waited, with events that were not fanned out yet. */
  readonly waiting: number;
  readonly deadLettered: number;
  /** Events and deliveries that are the new name's now. */
  readonly moved: number;
  /** Deliveries of events that the new name has a delivery of already. */
  readonly dismissed: number;
  /** What stands under the former name now. */
  readonly left: number;
}

/** This release's catalog does not list the new name for a topic of the former one; nothing was changed. */
export class NewNameNotListed extends Error {
  readonly code = 'no_such_subscription';

  /** @param listed those of the former name's topics for which the catalog does list the new one. */
  constructor({ from, to }: Rename, unlisted: readonly string[], listed: readonly string[]) {
    super(
      `This release’s catalog does not list ${to} for ${unlisted.join(', ')}. ${advice(from, to, listed)} Nothing was renamed.`,
    );
    this.name = 'NewNameNotListed';
  }
}

function advice(from: string, to: string, listed: readonly string[]): string {
  const names = subscriberNames();
  const meant = names.some((name) => name === to) ? null : nearest(to, names);
  if (meant !== null) return `Did you mean ${meant}?`;
  return listed.length > 0
    ? `Name one of the others to rename only that (${listed.join(', ')}), and retire ${from} where nobody wants it.`
    : `List it there and deploy first, or retire ${from} there.`;
}

/**
 * Hands what a subscriber's former name has over to its new one: what waits, what died, and its pauses and halts. The new
 * name is handed what waited before anything newer, in order. What was delivered stays the former name's.
 *
 * Works in chunks and can be called again: it then continues, or takes what an earlier release emitted for the former name
 * meanwhile. Until a topic is done, the former name is paused for it and the new one is handed nothing newer; the cron
 * continues what a call leaves.
 *
 * @returns one entry for each topic that had something of the former name; null when the name never had a delivery.
 * @throws StillListed; NewNameNotListed; NotActedOn `under_way` when relays do not let go of the lanes in time.
 */
export async function rename(
  db: Database,
  asked: Rename,
  how: Renaming,
): Promise<readonly RenamedTopic[] | null> {
  requireUnlisted(asked);
  const found = await count(db, asked);
  if (found.length === 0) return (await isKnown(db, asked.from)) ? [] : null;
  requireListed(asked, found);
  if (how.dryRun === true)
    return found.map((one) => ({ ...one, moved: 0, dismissed: 0, left: one.waiting + one.deadLettered }));
  const done = new Map<string, { readonly moved: number; readonly dismissed: number }>();
  for (const { topic, waiting, deadLettered } of found) {
    const opened = await openRename(db, { ...asked, topic }, { ...how, matched: waiting + deadLettered });
    done.set(topic, await takeOver(db, opened, how));
  }
  const left = new Map((await count(db, asked)).map((one) => [one.topic, one.waiting + one.deadLettered]));
  if (asked.topic === null && left.size === 0) await forgetPause(db, asked);
  const renamed = found.map((one) => ({ ...one, ...done.get(one.topic)!, left: left.get(one.topic) ?? 0 }));
  // The relays that hold the lanes did not let go of them in time.
  if (renamed.every(({ moved, dismissed }) => moved + dismissed === 0) && left.size > 0)
    throw new NotActedOn('under_way', heldUp(asked));
  return renamed;
}

function heldUp({ from, to }: Rename): string {
  return `A relay is still delivering to ${from} or ${to}. The rename goes on by itself once it lets go; ${to} gets nothing newer before. Ask again in a few seconds to see how far it is.`;
}

/**
 * Continues the renames that are under way, until this time. Any number of processes may do so.
 *
 * @throws the driver's error; what was moved stays.
 */
export async function advanceRenames(db: Database, until: number, now?: Date): Promise<void> {
  for (const open of await openRenames(db)) await takeOver(db, open, { until, ...(now && { now }) });
}

function requireUnlisted({ from, topic }: Rename): void {
  const listing = topics().find(
    ([name, { subscribers }]) =>
      (topic === null || name === topic) && subscribers.some((listed) => listed === from),
  );
  if (listing) throw new StillListed(from, listing[0], topic !== null, 'rename');
}

function requireListed(asked: Rename, found: readonly { readonly topic: string }[]): void {
  const listed = new Set(
    topics().flatMap(([name, { subscribers }]) =>
      subscribers.some((one) => one === asked.to) ? [name as string] : [],
    ),
  );
  const names = found.map(({ topic }) => topic);
  const unlisted = names.filter((name) => !listed.has(name));
  if (unlisted.length === 0) return;
  throw new NewNameNotListed(
    asked,
    unlisted,
    names.filter((name) => listed.has(name)),
  );
}

async function count(
  db: Database,
  { from, topic }: Rename,
): Promise<readonly { readonly topic: string; readonly waiting: number; readonly deadLettered: number }[]> {
  return await run(driverOf(db), { text: COUNT, values: [from, topic] });
}

/** Ends a pause of all topics of the former name: each topic's was copied. */
async function forgetPause(db: Database, { from }: Rename): Promise<void> {
  await db.delete(pauses).where(and(eq(pauses.subscriber, from), eq(pauses.topic, '')));
}

// A rename that is open has something left, if only to end it.
const COUNT = `
  select topic, sum(waiting)::float8 as waiting, sum(dead)::float8 as "deadLettered" from (
    select topic, sum(pending) + sum(failing) as waiting, sum(dead_lettered) as dead from backlog
    where subscriber = $1::text
    group by topic having sum(pending) <> 0 or sum(failing) <> 0 or sum(dead_lettered) <> 0
    union all
    select topic, count(*), 0 from awaiting_fan_out where $1::text = any (subscribers) group by topic
    union all
    select topic, 0, 0 from pauses where subscriber = $1::text and topic <> ''
    union all
    select topic, 0, 0 from backfills where renamed_from = $1::text and ended_at is null
  ) as held
  where $2::text is null or topic = $2::text group by topic order by topic`;
