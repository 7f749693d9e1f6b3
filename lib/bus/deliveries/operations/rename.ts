import type { Database } from '../../../platform/db/connect.ts';
import { driverOf } from '../../../platform/db/statement.ts';
import { nearest } from '../../../platform/nearest.ts';
import { SECOND } from '../../../platform/time.ts';
import { subscriberNames, subscribersOf } from '../../catalog/catalog.ts';
import { NotActedOn } from '../refusals.ts';
import type { Timing, Word } from './asked.ts';
import { openRename, openRenames } from './rename-open.ts';
import { takeOver } from './rename-take-over.ts';
import { countDuplicates, isKnown, requireUnlisted, standingUnder } from './standing.ts';
import type { Standing } from './standing.ts';

/** A subscriber's former name and its present one. */
export interface Rename {
  readonly from: string;
  readonly to: string;
  /** Null: all topics that the former name has deliveries of. */
  readonly topic: string | null;
}

/** Who renames, and for how long this call may work. */
export interface Renaming extends Word, Timing {
  /** Whether deliveries of events that the new name has already may be dismissed. */
  readonly dismissesDuplicates?: boolean;
}

/** What stood under the former name in one topic when the call began, and what the call did with it. */
export interface RenamedTopic extends Standing {
  /** Those of events that the new name has a delivery of already. */
  readonly duplicates: number;
  /** Events and deliveries that are the new name's now. */
  readonly moved: number;
  /** Duplicates. */
  readonly dismissed: number;
  /** What stands under the former name now. */
  readonly left: number;
}

/**
 * Counts what a rename would move, and what it would dismiss. Changes nothing.
 *
 * @returns one entry for each topic that has something of the former name; null when the name never had a delivery.
 * @throws NotActedOn `still_listed` or `no_such_subscription`.
 */
export async function previewRename(db: Database, asked: Rename): Promise<readonly RenamedTopic[] | null> {
  requireUnlisted(asked.from, asked.topic, 'rename');
  const found = await standingUnder(driverOf(db), asked.from, asked.topic);
  if (found.length === 0) return (await isKnown(db, asked.from)) ? [] : null;
  requireListed(asked, found);
  const renamed: RenamedTopic[] = [];
  for (const one of found) {
    const duplicates = await countDuplicates(db, { ...asked, topic: one.topic });
    renamed.push({ ...one, duplicates, moved: 0, dismissed: 0, left: one.waiting + one.deadLettered });
  }
  return renamed;
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
 * @throws NotActedOn as `previewRename`; `duplicates` unless they may be dismissed; `under_way` when relays do not let go of
 *   the lanes in time.
 */
export async function rename(
  db: Database,
  asked: Rename,
  how: Renaming,
): Promise<readonly RenamedTopic[] | null> {
  const found = await previewRename(db, asked);
  if (found === null || found.length === 0) return found;
  const duplicates = found.reduce((sum, one) => sum + one.duplicates, 0);
  if (duplicates > 0 && how.dismissesDuplicates !== true) throw duplicated(asked, duplicates);
  const { from, to } = asked;
  const done = new Map<string, { readonly moved: number; readonly dismissed: number }>();
  for (const { topic, waiting, deadLettered } of found) {
    const opened = await openRename(db, { ...asked, topic }, { ...how, matched: waiting + deadLettered });
    done.set(topic, await takeOver(db, opened, how));
  }
  const standing = await standingUnder(driverOf(db), from, asked.topic);
  const left = new Map(standing.map((one) => [one.topic, one.waiting + one.deadLettered]));
  const renamed = found.map((one) => ({ ...one, ...done.get(one.topic)!, left: left.get(one.topic) ?? 0 }));
  // The relays that hold the lanes did not let go of them in time.
  if (renamed.every(({ moved, dismissed }) => moved + dismissed === 0) && left.size > 0)
    throw new NotActedOn(
      'under_way',
      `A relay is still delivering to ${from} or ${to}. The rename goes on by itself once it lets go; ${to} gets nothing newer before. Ask again in a few seconds to see how far it is.`,
    );
  return renamed;
}

/** How long a rename is worked on before the next one has its turn. */
const TURN_MS = 1 * SECOND;

/**
 * Continues the renames that are under way, in turns, until this time: none waits for another one whose lanes a relay holds,
 * or that fails. Any number of processes may do so.
 *
 * @throws the driver's error, once the others have had their turns; what was moved stays.
 */
export async function advanceRenames(db: Database, until: number, now?: Date): Promise<void> {
  const failed = new Map<string, unknown>();
  for (;;) {
    const open = (await openRenames(db)).filter(({ id }) => !failed.has(id));
    for (const one of open) {
      const turn = { until: Math.min(until, Date.now() + TURN_MS), ...(now && { now }) };
      await takeOver(db, one, turn).catch((error: unknown) => failed.set(one.id, error));
    }
    if (open.length === 0 || Date.now() >= until) break;
  }
  for (const error of failed.values()) throw error;
}

/** @throws NotActedOn where the catalog does not list the new name for a topic of the former one. */
function requireListed(asked: Rename, found: readonly { readonly topic: string }[]): void {
  const names = found.map(({ topic }) => topic);
  const listed = names.filter((name) => subscribersOf(name).includes(asked.to));
  const unlisted = names.filter((name) => !listed.includes(name));
  if (unlisted.length === 0) return;
  const { from, to } = asked;
  const text = `This release’s catalog does not list ${to} for ${unlisted.join(', ')}. ${advice(from, to, listed)} Nothing was renamed.`;
  throw new NotActedOn('no_such_subscription', text);
}

/** @param listed those of the former name's topics for which the catalog does list the new one. */
function advice(from: string, to: string, listed: readonly string[]): string {
  const names = subscriberNames();
  const meant = names.some((name) => name === to) ? null : nearest(to, names);
  if (meant !== null) return `Did you mean ${meant}?`;
  return listed.length > 0
    ? `Name one of the others to rename only that (${listed.join(', ')}), and retire ${from} where nobody wants it.`
    : `List it there and deploy first, or retire ${from} there.`;
}

function duplicated({ from, to }: Rename, duplicates: number): NotActedOn {
  const [has, they] = duplicates === 1 ? ['delivery of an event', 'it'] : ['deliveries of events', 'them'];
  return new NotActedOn(
    'duplicates',
    `${duplicates} ${has} that ${to} has already would be dismissed, not moved. Nothing was renamed. Agree to dismiss ${they}, or leave ${from} as it is.`,
  );
}
