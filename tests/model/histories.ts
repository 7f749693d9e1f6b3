import type { DeliveryVersion, History } from '../chaos/history.ts';
import { deliveryIdOf, grouped } from '../chaos/reading.ts';
import { stepsFrom, take } from './next.ts';
import { scopeNamed } from './scopes.ts';
import { keyOf } from './state.ts';
import type { Delivery, State } from './state.ts';
import { STEPS } from './steps.ts';
import { initialState } from './world.ts';

/** The scopes that between them have all that can become of a delivery. */
const SOURCES = ['failures', 'batches', 'operators', 'halts', 'keys-one-by-one', 'backfill'];

/** So many states of each have all its changes. */
const STATES_EACH = 2500;

/** What chaos runs do to deliveries, and the model has no steps for. */
const OUTSIDE: ReadonlySet<string> = new Set(['waited', 'renamed']);

/** A delivery as far as a history and the model both have it. */
type Common = Pick<Delivery, 'attempts' | 'replays'> & { readonly state: string };

/** Writes a change of a delivery, or its first version, and whether a relay made it or an operator. */
function changeOf(before: Common | null, after: Common, by: string): string {
  if (!before) return `${by} writes it, ${after.state}, ${after.attempts} attempts`;
  const attempts =
    after.attempts === before.attempts
      ? 'as before'
      : after.attempts === 0
        ? 'none'
        : `${after.attempts - before.attempts} more`;
  const replays = after.replays - before.replays;
  return `${by}: ${before.state} → ${after.state}, attempts ${attempts}, replays ${replays} more`;
}

let known: ReadonlySet<string> | null = null;

/** All changes that the model makes to a delivery. */
function allowedChanges(): ReadonlySet<string> {
  known ??= new Set(SOURCES.flatMap((name) => [...changesIn(name)]));
  return known;
}

function changesIn(name: string): Set<string> {
  const scope = scopeNamed(name);
  // More attempts than two, so that a delivery fails again.
  const world = { scope: { ...scope, maxAttempts: 3, faults: { ...scope.faults, throw: 3 } }, mistake: null };
  const first = initialState(world);
  const states = new Map<string, State>([[keyOf(first), first]]);
  const changes = new Set<string>();
  for (const state of states.values()) {
    for (const step of stepsFrom(state, world)) {
      const after = take(state, step, world);
      if (states.size < STATES_EACH) states.set(keyOf(after), after);
      const by = STEPS[step.name][0] === 'operator' ? 'operator' : 'relay';
      for (const one of after.db.deliveries) {
        const before = state.db.deliveries.find(
          ({ home, position }) => home === one.home && position === one.position,
        );
        if (!before || JSON.stringify(before) !== JSON.stringify(one))
          changes.add(changeOf(before ?? null, one, by));
      }
    }
  }
  return changes;
}

/** Holds a chaos run to the model. @returns the changes of deliveries that the model does not make. */
export function notAllowed({ deliveries, lanes, subscribers }: History): string[] {
  const allowed = allowedChanges();
  const waiting = new Set(subscribers.filter(({ outage }) => outage === 'wait').map(({ name }) => name));
  const waitingLanes = new Set(lanes.filter(({ subscriber }) => waiting.has(subscriber)).map(({ id }) => id));
  return [...grouped(deliveries, deliveryIdOf)].flatMap(([id, versions]) =>
    versions.flatMap((version, index) => {
      const before = versions[index - 1];
      // An outage gives back the attempts that it used up.
      const isGivenBack = version.replays === before?.replays && version.attempts < before.attempts;
      if (isGivenBack && waitingLanes.has(version.laneId)) return [];
      const isLogged = version.log.length > (before?.log.length ?? 0);
      if (isLogged && OUTSIDE.has(version.log.at(-1)!.outcome)) return [];
      const change = changeOf(
        before ? commonOf(before) : null,
        commonOf(version),
        version.by.startsWith('relay') ? 'relay' : 'operator',
      );
      return allowed.has(change) || isSame(before, version) ? [] : [`${id}: ${change}`];
    }),
  );
}

function commonOf({ state, dismissedAt, attempts, replays }: DeliveryVersion): Common {
  const named = state === 'dead_lettered' ? (dismissedAt === null ? 'dead' : 'dismissed') : state;
  return { state: named, attempts, replays };
}

/** What the model does not have was changed: such as the time of the next attempt. */
function isSame(before: DeliveryVersion | undefined, after: DeliveryVersion): boolean {
  return before !== undefined && JSON.stringify(commonOf(before)) === JSON.stringify(commonOf(after));
}
