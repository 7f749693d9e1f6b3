import { stepsFrom, take } from '../next.ts';
import type { State } from '../state.ts';
import type { Step, StepName } from '../steps.ts';
import { initialState } from '../world.ts';
import type { World } from '../world.ts';
import { sentenceOf } from '../words.ts';
import type { Producer, Relay, Stage } from './stage.ts';

/** The steps that can be taken on a real database. */
const PLAYED: ReadonlySet<StepName> = new Set<StepName>([
  ...(['begin', 'lock', 'stamp', 'insert', 'commit', 'rollback', 'look', 'clock', 'locks', 'try'] as const),
  ...([
    'clock again',
    'place',
    'place old',
    'finish',
    'hand',
    'ok',
    'throw',
    'throw for good',
    'due',
  ] as const),
]);

const isPlayed = ({ name }: Step) => PLAYED.has(name);

/** The processes of one schedule. */
interface Cast {
  readonly producers: readonly Producer[];
  readonly relays: readonly Relay[];
}

async function castOf(stage: Stage, { scope }: World): Promise<Cast> {
  const producers: Producer[] = [];
  const relays: Relay[] = [];
  for (let who = 0; who < scope.producers; who += 1) producers.push(await stage.producer(who));
  for (let who = 0; who < scope.relays; who += 1) relays.push(await stage.relay(who));
  return { producers, relays };
}

/**
 * Plays a schedule of the unchanged bus, and compares the database with the model after each step.
 *
 * @returns where they differ first, in words; null: nowhere.
 */
export async function compare(stage: Stage, schedule: readonly Step[], world: World): Promise<string | null> {
  const base = await positionsDrawn(stage);
  const cast = await castOf(stage, world);
  let state = initialState(world);
  const told: string[] = [];
  try {
    for (const step of schedule) {
      told.push(sentenceOf(step, state));
      const problem = await perform(stage, cast, step, state, world);
      state = take(state, step, world);
      const [expected, found] = [modelled(state), await stored(stage, base)];
      if (problem === null && expected === found) continue;
      const lines = told.map((line, index) => `${String(index + 1).padStart(4)}  ${line}`);
      return [...lines, problem ?? `      the model has ${expected}`, `      Postgres has  ${found}`].join(
        '\n',
      );
    }
    return null;
  } finally {
    await stage.clear();
  }
}

/**
 * Plays what can be played of a schedule that breaks the order in the model, then lets all come to rest.
 *
 * @returns whether positions break the order of creation, or an event is left.
 */
export async function isBroken(stage: Stage, schedule: readonly Step[], world: World): Promise<boolean> {
  const cast = await castOf(stage, world);
  let state = initialState(world);
  try {
    for (const step of schedule) {
      await perform(stage, cast, step, state, world);
      state = take(state, step, world);
    }
    await comeToRest(cast, state);
    const [found] = await stage.query<{
      broken: boolean;
    }>(`select exists (select from awaiting_fan_out) or exists (
      select from deliveries as one join events as first on first.id = one.event_id
        join deliveries as other using (lane_id) join events as second on second.id = other.event_id
      where one.position < other.position and (first.created_at, first.seq) > (second.created_at, second.seq)) as broken`);
    return found!.broken;
  } finally {
    await stage.clear();
  }
}

async function comeToRest({ producers, relays }: Cast, state: State): Promise<void> {
  for (const actor of [...producers, ...relays]) while ((await actor.rests()) === 'gate') await actor.goOn();
  for (const [who, { phase }] of state.producers.entries())
    if (phase !== 'idle') await producers[who]!.query('commit');
  for (let turns = 0; turns < 3; turns += 1) {
    await relays[0]!.turn(false);
    while ((await relays[0]!.rests()) === 'gate') await relays[0]!.goOn();
  }
}

/** Takes a step. @returns what cannot be, or null. */
async function perform(
  stage: Stage,
  { producers, relays }: Cast,
  step: Step,
  state: State,
  world: World,
): Promise<string | null> {
  const { name, who } = step;
  const producer = producers[who]!;
  const relay = relays[who]!;
  switch (name) {
    case 'begin':
    case 'commit':
    case 'rollback':
      await producer.query(name);
      return null;
    case 'lock':
      await producer.emit(state.producers[who]!.event);
      return null;
    case 'stamp':
    case 'insert':
      await producer.goOn();
      return null;
    case 'look':
      await stage.choose(who, false, false);
      await relay.turn(world.scope.handsOver);
      return null;
    case 'locks':
    case 'try':
    case 'place':
    case 'place old':
      await stage.choose(who, name === 'try', name === 'place old');
      await relay.goOn();
      return null;
    case 'clock':
    case 'picks':
    case 'finish':
      await relay.goOn();
      return null;
    case 'hand':
      return handed(relay, state, step);
    case 'ok':
    case 'throw':
    case 'throw for good':
      await relay.endCall(name);
      return null;
    case 'due':
      await stage.query(`update deliveries set next_attempt_at = next_attempt_at - interval '1 day';
        update lanes set due_at = due_at - interval '1 day'`);
      return null;
    default:
      return null;
  }
}

function handed(relay: Relay, state: State, { who, what }: Step): string | null {
  const run = state.relays[who]!.runs[Math.floor(what / 10)]!;
  const expected = run.events[what % 10];
  return relay.call?.event === expected
    ? null
    : `      the handler was called with event ${relay.call?.event}, not ${expected}`;
}

async function positionsDrawn(stage: Stage): Promise<number> {
  const [found] = await stage.query<{ last: string | null }>(
    "select pg_sequence_last_value('delivery_positions') as last",
  );
  return Number(found!.last ?? 0);
}

/** The state as the database is compared with it: what waits, the deliveries, and the lane. */
function modelled({ db }: State): string {
  return JSON.stringify({
    markers: db.markers.map(({ event }) => event).toSorted(),
    deliveries: db.deliveries.map(({ position, event, state, attempts }) => [
      position,
      event,
      state,
      attempts,
    ]),
    lane:
      db.deliveries.length === 0
        ? null
        : db.lanes.map(({ head, tail, token, due }) => [head, tail, token > 0, due])[0],
  });
}

async function stored(stage: Stage, base: number): Promise<string> {
  const [found] = await stage.query<{ found: object }>(`select json_build_object(
    'markers', (select coalesce(json_agg((payload ->> 'amountMinor')::int - 1 order by payload ->> 'amountMinor'), '[]')
      from awaiting_fan_out join events on events.id = event_id),
    'deliveries', (select coalesce(json_agg(json_build_array(position - ${base}, (payload ->> 'amountMinor')::int - 1,
        replace(deliveries.state::text, 'dead_lettered', 'dead'), attempts) order by position), '[]')
      from deliveries join lanes on lanes.id = lane_id join events on events.id = event_id where subscriber = 'ledger'),
    'lane', (select json_build_array(greatest(head - ${base}, 0), tail - ${base}, lease_token is not null, case
        when due_at is null then 'no' when due_at <= clock_timestamp() then 'now' else 'later' end)
      from lanes where subscriber = 'ledger')) as found`);
  return JSON.stringify(found!.found);
}

/** Schedules that together take every step from every state of a scope; each goes on until nothing new is near. */
export function* covering(world: World, keyOf: (state: State) => string): Generator<Step[]> {
  const known = new Map<string, number>();
  const states: State[] = [];
  const edges: { readonly step: Step; readonly to: number }[][] = [];
  const note = (state: State) => {
    const key = keyOf(state);
    const found = known.get(key);
    if (found !== undefined) return found;
    known.set(key, states.length);
    states.push(state);
    return states.length - 1;
  };
  note(initialState(world));
  for (let index = 0; index < states.length; index += 1)
    edges.push(
      stepsFrom(states[index]!, world)
        .filter(isPlayed)
        .map((step) => ({ step, to: note(take(states[index]!, step, world)) })),
    );
  const left = edges.map((of) => new Set(of.keys()));
  for (let way = wayToNew(0, edges, left); way; way = wayToNew(0, edges, left)) {
    const schedule: Step[] = [];
    let at = 0;
    for (let more: readonly number[] | null = way; more; more = wayToNew(at, edges, left)) {
      for (const place of more) {
        left[at]!.delete(place);
        const { step, to } = edges[at]![place]!;
        schedule.push(step);
        at = to;
      }
    }
    yield schedule;
  }
}

/** The shortest way to a step that was not taken yet. */
function wayToNew(
  from: number,
  edges: readonly (readonly { readonly to: number }[])[],
  left: readonly ReadonlySet<number>[],
): readonly number[] | null {
  const came = new Map<number, readonly [before: number, place: number]>([[from, [-1, -1]]]);
  for (const at of came.keys()) {
    const [fresh] = left[at]!;
    if (fresh !== undefined) {
      const way = [fresh];
      for (let [before, place] = came.get(at)!; before !== -1; [before, place] = came.get(before)!)
        way.unshift(place);
      return way;
    }
    for (const [place, { to }] of edges[at]!.entries()) if (!came.has(to)) came.set(to, [at, place]);
  }
  return null;
}

/** A way through a scope by chance. @param random in [0, 1). */
export function wander(world: World, random: () => number): Step[] {
  const schedule: Step[] = [];
  for (let state = initialState(world); schedule.length < 80;) {
    const steps = stepsFrom(state, world).filter(isPlayed);
    const step = steps[Math.floor(random() * steps.length)];
    if (!step) break;
    schedule.push(step);
    state = take(state, step, world);
  }
  return schedule;
}
