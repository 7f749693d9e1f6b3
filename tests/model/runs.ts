import type { Run, State } from './state.ts';
import type { World } from './world.ts';

/** The places whose handlers may be called now: the first, or in a shared lane the first of each key that none is called for. */
export function handable({ ends, keys, key, isDone, isOver }: Run, { scope }: World): number[] {
  if (isDone || isOver) return [];
  const isShared = scope.keys.length > 0 && key === 0;
  const blocked = new Set<number>();
  return ends.flatMap((end, place) => {
    const strand = isShared ? keys[place]! : 0;
    if (blocked.has(strand)) return [];
    if (end === '') blocked.add(strand);
    if (end === 'running' || isBlock(end, scope.haltsAtDeadLetter, scope.handler)) blocked.add(strand);
    return end === '' ? [place] : [];
  });
}

/** Whether nothing more of a key is delivered behind this. */
function isBlock(end: Run['ends'][number], halts: boolean, handler: string): boolean {
  return end === 'failed' || end === 'early' || (end === 'dead' && (halts || handler === 'transactional'));
}

/** A run is done when nothing can be handed over any more. */
export function conclude(run: Run, world: World): void {
  if (!run.ends.includes('running') && handable(run, world).length === 0) run.isDone = true;
}

/** Records a failed attempt. After the last one the delivery is a dead letter. */
export function failed(state: State, run: Run, place: number, { scope }: World, isForGood = false): void {
  const delivery = state.db.deliveries.find(
    ({ home, position }) => home === run.home && position === run.positions[place],
  );
  const isLast = isForGood || (delivery?.attempts ?? 0) + 1 >= scope.maxAttempts;
  run.ends[place] = isLast ? 'dead' : 'failed';
  if (isLast) state.seen[run.home]![run.events[place]!]!.hasEnded = true;
}
