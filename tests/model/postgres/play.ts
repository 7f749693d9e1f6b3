import { backfill, stepBackfill } from '../../../lib/bus/deliveries/operations/backfill.ts';
import { dismissOne } from '../../../lib/bus/deliveries/operations/dismiss.ts';
import { pause, resume } from '../../../lib/bus/deliveries/operations/pause.ts';
import { replay } from '../../../lib/bus/deliveries/operations/replay.ts';
import { skip } from '../../../lib/bus/deliveries/operations/skip.ts';
import { cancelTimer, emit } from '../../../lib/bus/outbox/emit.ts';
import { PermanentError } from '../../../lib/bus/subscribers/outcome.ts';
import { payment } from '../../support/bus.ts';
import { stepsFrom, take } from '../next.ts';
import type { State } from '../state.ts';
import { FAULTS } from '../steps.ts';
import type { Step, StepName } from '../steps.ts';
import { initialState } from '../world.ts';
import type { World } from '../world.ts';
import { sentenceOf } from '../words.ts';
import { Producer, Relay, subscriberOf } from './actors.ts';
import type { HandlerEnd } from './actors.ts';
import { TOPIC } from './stage.ts';
import type { Stage } from './stage.ts';

/** The steps that are not chosen by chance: the clock can't step to any instant. */
const LEFT_OUT: ReadonlySet<StepName> = new Set<StepName>(['step back', 'time passes']);

export const isPlayed = ({ name }: Step) => !LEFT_OUT.has(name);

/**
 * Plays a schedule, and compares the database with the model after each step. Where nothing is left to do in the model, a turn
 * more must change nothing.
 *
 * @returns where they differ first, in words; null: nowhere.
 */
export async function compare(stage: Stage, schedule: readonly Step[], world: World): Promise<string | null> {
  const play = await Play.begin(stage, world);
  let state = initialState(world);
  const told: string[] = [];
  const [modelled, stored] = [new Positions(), new Positions()];
  const differs = async (act: () => Promise<string | null>): Promise<string | null> => {
    // What cannot be done is a difference too.
    const problem = await act().catch(
      (error: unknown) => `${error instanceof Error ? error.message : error}`,
    );
    const expected = JSON.stringify(seenIn(state, modelled));
    const found = JSON.stringify(await play.seen(stored));
    if (problem === null && expected === found) return null;
    const steps = told.map((line, index) => `${String(index + 1).padStart(4)}  ${line}`);
    const what = [problem ?? '', `the model has ${expected}`, `Postgres has  ${found}`];
    return [...steps, ...what.map((line) => `      ${line}`)].join('\n');
  };
  try {
    for (const step of schedule) {
      told.push(sentenceOf(step, state));
      const before = state;
      state = take(before, step, world);
      const difference = await differs(() => play.perform(step, before, state));
      if (difference !== null) return difference;
    }
    if (stepsFrom(state, world).some(({ name }) => !FAULTS.has(name))) return null;
    told.push('each relay takes a turn');
    return await differs(() => play.idle());
  } finally {
    await stage.clear();
  }
}

/** Positions by the order in which they were first seen: which of them are left out is the database's to say. */
class Positions {
  readonly #seen = new Map<number, number>();

  ordinalOf(position: number): number {
    const ordinal = this.#seen.get(position) ?? this.#seen.size;
    this.#seen.set(position, ordinal);
    return ordinal;
  }
}

/** What is compared: the tables, as far as the model has them. */
interface Seen {
  /** Events by their numbers. */
  readonly markers: readonly number[];
  readonly timers: readonly number[];
  readonly deliveries: readonly (readonly [
    position: number,
    event: number,
    state: string,
    attempts: number,
    replays: number,
  ])[];
  /** How many deliveries are before its head, and its tail. */
  readonly lanes: readonly (readonly [
    key: number,
    head: number,
    tail: number,
    isHeld: boolean,
    due: string,
  ])[];
  /** Of a transactional handler: by event, how often it has written. */
  readonly effects: readonly (readonly [event: number, times: number])[];
}

function seenIn({ db, timers, events, seen }: State, positions: Positions): Seen {
  const ofTimers = timers.map((_, who) => events.length - timers.length + who);
  const recorded = ofTimers.filter((event) => events[event]!.fate === 'committed');
  const upTo = (end: number) => db.deliveries.filter(({ position }) => position <= end).length;
  return {
    markers: [...db.markers.map(({ event }) => event), ...recorded].toSorted(),
    timers: ofTimers.filter((_, who) => timers[who]!.state === 'set'),
    deliveries: db.deliveries.map((one) => [
      positions.ordinalOf(one.position),
      one.event,
      one.state,
      one.attempts,
      one.replays,
    ]),
    lanes:
      db.deliveries.length === 0
        ? []
        : db.lanes.map(({ key, head, tail, token, due }) => [key, upTo(head), upTo(tail), token > 0, due]),
    effects: (seen[0] ?? []).flatMap(({ effects }, event) => (effects > 0 ? [[event, effects]] : [])),
  };
}

/** The number of an event is its payment's. */
const SEEN = `select json_build_object(
  'markers', (select coalesce(json_agg(number order by number), '[]') from (
      select (payload ->> 'amountMinor')::int - 1 as number from awaiting_fan_out join events on events.id = event_id
    ) as waiting),
  'timers', (select coalesce(json_agg(number order by number), '[]')
    from (select (payload ->> 'amountMinor')::int - 1 as number from timers) as timer),
  'deliveries', (select coalesce(json_agg(json_build_array(position, (payload ->> 'amountMinor')::int - 1,
      case when dismissed_at is not null then 'dismissed' when deliveries.state = 'dead_lettered' then 'dead'
        else deliveries.state::text end, attempts, replays) order by position), '[]')
    from deliveries join lanes on lanes.id = lane_id join events on events.id = event_id where subscriber = 'ledger'),
  'lanes', (select coalesce(json_agg(json_build_array(key, head, tail, is_held, due) order by key), '[]') from (
      select case when held_key = '' then 0 else right(held_key, 2)::int - 12 end as key, lease_token is not null as is_held,
        (select count(*) from deliveries where lane_id = coalesce(home_id, lanes.id) and position <= lanes.head) as head,
        (select count(*) from deliveries where lane_id = coalesce(home_id, lanes.id) and position <= lanes.tail) as tail,
        case when due_at is null or lease_token is not null and due_at > clock_timestamp() then 'no'
          when due_at = 'infinity' then 'at its front' when due_at <= clock_timestamp() then 'now' else 'later' end as due
      from lanes where subscriber = 'ledger'
        and exists (select from deliveries where lane_id = coalesce(home_id, lanes.id))
    ) as lane),
  'effects', (select coalesce(json_agg(json_build_array(event, times) order by event), '[]')
    from (select event, count(*) as times from model.effects group by event) as effect)
  ) as seen`;

const ENDS: Readonly<Record<string, HandlerEnd>> = {
  ok: undefined,
  throw: new Error('as planned'),
  'throw second': new Error('as planned'),
  'throw for good': new PermanentError('as planned'),
  'take one': 1,
};

/** A schedule that is played: its processes, and how each step is taken. */
class Play {
  readonly #stage: Stage;
  readonly #world: World;
  readonly #producers: Producer[] = [];
  readonly #relays: Relay[] = [];
  #backfill = '';

  private constructor(stage: Stage, world: World) {
    this.#stage = stage;
    this.#world = world;
  }

  static async begin(stage: Stage, world: World): Promise<Play> {
    const play = new Play(stage, world);
    const { producers, timers, relays } = world.scope;
    // A timer's transactions are those of a producer, and the last one's releases timers.
    const releases = timers > 0 ? 1 : 0;
    for (let who = 0; who < producers.length + timers + releases; who += 1)
      play.#producers.push(await stage.add(new Producer(stage, who, timers > 0)));
    for (let who = 0; who < relays; who += 1)
      play.#relays.push(await stage.add(new Relay(stage, who, world.scope)));
    await stage.set(world.scope);
    return play;
  }

  async seen(positions: Positions): Promise<Seen> {
    const [found] = await this.#stage.query<{ seen: Seen }>(SEEN);
    const { deliveries, ...rest } = found!.seen;
    const { markers, timers, lanes, effects } = rest;
    const named = deliveries.map(
      ([position, ...of]) => [positions.ordinalOf(position), ...of] as Seen['deliveries'][number],
    );
    return { markers, timers, deliveries: named, lanes, effects };
  }

  /** Has each relay take a turn. */
  async idle(): Promise<null> {
    for (const [who, relay] of this.#relays.entries()) {
      await this.#stage.choose(who, false, false);
      await relay.turn([]);
      while ((await relay.rests()) === 'gate') await relay.goOn();
    }
    return null;
  }

  /** Takes a step. @returns what should not be, or null. */
  async perform(step: Step, state: State, after: State): Promise<string | null> {
    const { name, who, what } = step;
    const stage = this.#stage;
    const producer = this.#producers[who]!;
    const relay = this.#relays[who]!;
    switch (name) {
      case 'begin':
      case 'commit':
      case 'rollback':
        await producer.query(name);
        break;
      case 'lock': {
        const { event } = state.producers[who]!;
        await producer.emit(event, this.#world.scope.keys[event]);
        break;
      }
      case 'stamp':
      case 'insert':
        await producer.goOn();
        break;
      case 'prepare':
        await producer.query(`prepare transaction 'producer ${who}'`);
        break;
      case 'commit prepared':
        await stage.query(`commit prepared 'producer ${who}'`);
        break;
      case 'look':
        await stage.choose(who, false, false);
        await relay.turn(state.relays[who]!.runs.filter(({ isDone }) => isDone).map(({ key }) => key));
        break;
      case 'locks':
      case 'try':
      case 'place':
      case 'place old':
        await stage.choose(who, name === 'try', name === 'place old');
        await relay.goOn();
        break;
      case 'clock':
      case 'clock again':
      case 'picks':
      case 'finish':
        // In a mistaken fan-out two readings of the clock are one step of Postgres.
        if (name !== 'clock again') await relay.goOn();
        break;
      case 'hand':
        return await this.#hand(step, state, after);
      case 'ok':
      case 'throw':
      case 'throw second':
      case 'throw for good':
      case 'take one':
        await this.#endHandler(step, state);
        break;
      case 'kill':
        await relay.die();
        break;
      case 'crash':
      case 'crash and lose':
        await stage.restart('immediate', name === 'crash');
        break;
      case 'restart':
        await stage.restart('fast', true);
        break;
      case 'step back':
        if (what > 0) return 'the clock can only step back behind all instants';
        await stage.stepBack();
        break;
      case 'due':
      case 'lease ends':
        await this.#passTime(name, state, what);
        break;
      case 'set timer':
      case 'timer due':
      case 'cancel':
      case 'cancel commits':
      case 'cancel rolls back':
      case 'take':
      case 'release':
        await this.#ofTimer(step, state);
        break;
      default:
        await this.#operate(step, state);
    }
    return null;
  }

  /** @returns a handler that was not called, or for another event. */
  async #hand({ who, what }: Step, state: State, after: State): Promise<string | null> {
    const index = Math.floor(what / 10);
    const { key, events } = state.relays[who]!.runs[index]!;
    const event = events[what % 10]!;
    const called = await this.#relays[who]!.hand(key);
    const isExpected = after.relays[who]!.runs[index]!.ends[what % 10] === 'running';
    return called.includes(event) === isExpected
      ? null
      : `handlers were called with events [${called.join()}], ${isExpected ? '' : 'and not '}with ${event}`;
  }

  async #endHandler({ name, who, what }: Step, state: State): Promise<void> {
    const { key, events, ends } = state.relays[who]!.runs[Math.floor(what / 10)]!;
    const running = events.filter((_, place) => ends[place] === 'running');
    const relay = this.#relays[who]!;
    switch (this.#world.scope.handler) {
      case 'plain':
        return await relay.endCall([events[what % 10]!], ENDS[name]);
      case 'batch':
        return await relay.endCall(running, ENDS[name]);
      default: {
        const ended = name === 'ok' ? running : running.slice(0, name === 'throw second' ? 2 : 1);
        await relay.endTransaction(key, ended, ENDS[name]);
      }
    }
  }

  /** As much of it as a retry waits for, or a lease lasts. */
  async #passTime(name: 'due' | 'lease ends', { db, disk }: State, lane: number): Promise<void> {
    const { key } = db.lanes[lane]!;
    const heldKey = key === 0 ? '' : `key ${12 + key}`;
    const ofLane = `subscriber = 'ledger' and held_key = '${heldKey}'`;
    if (name === 'due')
      await this.#stage.change(
        `update deliveries set next_attempt_at = next_attempt_at - interval '1 day' where ${key === 0 ? true : `lane_key = '${heldKey}'`};
         update lanes set due_at = due_at - interval '1 day' where ${ofLane}`,
        disk === null,
      );
    else
      await this.#stage.change(
        `update lanes set leased_until = clock_timestamp() - interval '1 millisecond',
           due_at = case when home_id is not null then clock_timestamp() - interval '1 millisecond' end where ${ofLane};
         insert into leases select leased_until, array[id] from lanes where ${ofLane} and home_id is null;
         select postbud_tidy_1(null, null)`,
        true,
      );
  }

  async #ofTimer({ name, who }: Step, { timers, events }: State): Promise<void> {
    const event = events.length - timers.length + who;
    const own = this.#producers[who]!;
    const releases = this.#producers.at(-1)!;
    const key = `timer ${who}`;
    switch (name) {
      case 'set timer':
        await own.query('begin');
        await own.run((tx) => emit(tx, TOPIC, payment(event + 1), { at: `${who + 1}h`, timerKey: key }));
        await own.query('commit');
        break;
      case 'timer due':
        // The clock of the release says so.
        break;
      case 'cancel':
        await own.query('begin');
        await own.run((tx) => cancelTimer(tx, TOPIC, key));
        break;
      case 'cancel commits':
        await own.query('commit');
        break;
      case 'cancel rolls back':
        await own.query('rollback');
        break;
      case 'take': {
        const due = timers.map(({ isDue }) => isDue).lastIndexOf(true) + 1;
        const most = timers.filter(({ state }, other) => other <= who && state === 'set').length;
        await releases.query('begin');
        await releases.query(
          `select postbud_release_timers_1(now() + interval '1 hour 1 minute' * ${due}, ${most})`,
        );
        break;
      }
      default:
        await releases.query('commit');
    }
  }

  async #operate({ name, what }: Step, { db: { deliveries } }: State): Promise<void> {
    const { db } = this.#stage.operators;
    const of = { topic: TOPIC, subscriber: 'ledger' } as const;
    const how = { by: 'an operator', reason: 'as planned' } as const;
    const deliveryId = async () => {
      const [found] = await this.#stage.query<{ id: string }>(
        `select lane_id || '-' || position as id from deliveries join lanes on lanes.id = lane_id
           join events on events.id = event_id
         where subscriber = 'ledger' and payload ->> 'amountMinor' = '${deliveries[what]!.event + 1}'`,
      );
      return found!.id;
    };
    switch (name) {
      case 'replay':
      case 'replay unknowing': {
        const attached = name === 'replay' ? [subscriberOf(this.#world.scope)] : [];
        await replay(db, { deliveryIds: [await deliveryId()], include: 'all' }, how.by, undefined, attached);
        break;
      }
      case 'skip':
        await skip(db, { deliveryId: await deliveryId(), ...how });
        break;
      case 'dismiss':
        await dismissOne(db, { deliveryId: await deliveryId(), ...how });
        break;
      case 'pause':
        await pause(db, { subscriber: of.subscriber, topic: null }, how.by, how.reason);
        break;
      case 'resume':
        await resume(db, { subscriber: of.subscriber, topic: null }, how.by, null);
        break;
      case 'open backfill':
        this.#backfill = (await backfill(db, { ...of, since: new Date(0), by: how.by, until: 0 })).id;
        // Those of keys, which its events do not have.
        await this.#stage.query("delete from lanes where subscriber = 'ledger' and slot is not null");
        break;
      case 'begin backfill':
        await this.#stage.query(`select postbud_begin_backfill_1('${this.#backfill}', clock_timestamp())`);
        break;
      case 'write backfill':
        await stepBackfill(db, this.#backfill, 1);
        break;
      case 'end backfill':
        while (!(await stepBackfill(db, this.#backfill, 1000)).isEnded);
        break;
      default:
      // A relay is stopped, or goes on: it takes no step in between.
    }
  }
}
