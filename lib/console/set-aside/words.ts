import type { RepairOutcome } from '../../bus/deliveries/operations/repair.ts';
import type { SetAside } from './read.ts';

/** Says what was set aside, and why. */
export function whatWords({
  kind,
  topic,
  eventExists,
}: Pick<SetAside, 'kind' | 'topic' | 'eventExists'>): string {
  if (kind === 'clock_was_ahead')
    return 'The database’s clock was ahead. The times that it left were taken back.';
  if (kind === 'unfit_timer')
    return `A timer of ${topic} that is due, and whose payload this catalog does not accept.`;
  return eventExists
    ? `An event of ${topic} that cannot get its place.`
    : `A row of ${topic} that awaits a place, and has no event.`;
}

/** Says what repairing it does. */
export function repairWords({ kind, eventExists }: Pick<SetAside, 'kind' | 'eventExists'>): string {
  if (kind === 'clock_was_ahead') return 'Closes the incident. Check the time synchronisation first.';
  if (kind === 'unfit_timer')
    return 'Releases it once more: do so after the release whose catalog accepts it. Cancel it under Timers if it must not happen.';
  return eventExists
    ? 'The event is delivered: in its place, or after the newer ones that its subscribers have already.'
    : 'Dismisses the row. Nothing is delivered, and it stays on record.';
}

/** Says what became of it. */
export const OUTCOMES: Readonly<Record<RepairOutcome, string>> = {
  in_its_place: 'The event awaits its place again.',
  late: 'The event awaits a place again, behind newer ones that have theirs already, as if recorded now.',
  due: 'The timer is released when the relay next looks, or set aside again.',
  dismissed: 'It is dismissed, and stays on record. Nothing is delivered.',
};
