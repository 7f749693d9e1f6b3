import { setTimeout as sleep } from 'node:timers/promises';

import pg from 'pg';
import { expect } from 'vitest';

import { emit } from '../../lib/bus/outbox/emit.ts';
import { Bell } from '../../lib/bus/relay/bell.ts';
import { relay } from '../../lib/bus/relay/relay.ts';
import { PermanentError, RetryAfter } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { AttachedSubscriber, BusEvent, DeliveryContext } from '../../lib/bus/subscribers/subscriber.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import { SECOND } from '../../lib/platform/time.ts';
import { test } from '../support/bus-test.ts';
import { contradictions, payloadOf, rows } from '../support/bus.ts';
import type { Bus } from '../support/bus.ts';

/** How long producers and what kills go on. */
const PLAY_MS = 6 * SECOND;

/** Every so often, a number that repeats with its seed. @see https://gist.github.com/tommyettinger/46a874533244883189143505d203312c */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = Math.trunc(state + 0x6d_2b_79_f5);
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** A moment of an attempt. */
interface Told {
  readonly at: string;
  readonly id: string;
  readonly attempt: number;
  readonly what: string;
  /** Whether it may come after later ones: it was replayed, or its handler had refused it for good. */
  readonly mayBeLate: boolean;
}

/** What handlers were handed and what they took, in order, and what they found wrong. */
class Story {
  isCalm = false;
  overlaps = 0;
  failures = 0;
  readonly told = new Map<string, Told[]>();
  /** Behind a dead letter its relay goes on. Where that is not settled, it is handed over again. */
  readonly #refused = new Set<string>();
  readonly #running = new Map<string, number>();
  readonly #random: () => number;

  constructor(random: () => number) {
    this.#random = random;
  }

  async handle(
    name: string,
    event: BusEvent,
    { replayed, signal, attempt }: Pick<DeliveryContext, 'replayed' | 'signal' | 'attempt'>,
  ) {
    const lane = `${name} ${event.topic} ${event.orderingKey}`;
    const tell = (what: string, mayBeLate = replayed || this.#refused.has(`${lane} ${event.id}`)) => {
      const told = this.told.get(lane) ?? [];
      told.push({ at: new Date().toISOString(), id: event.id, attempt, what, mayBeLate });
      this.told.set(lane, told);
    };
    tell('begun', replayed);
    const running = (this.#running.get(lane) ?? 0) + 1;
    this.#running.set(lane, running);
    if (running > 1) this.overlaps += 1;
    let isGone = false;
    const leave = () => {
      if (!isGone) this.#running.set(lane, this.#running.get(lane)! - 1);
      isGone = true;
    };
    signal.addEventListener('abort', leave);
    try {
      const luck = this.#random();
      if (luck < 0.25) await sleep(luck * 32);
      else if (luck < 0.27) await sleep(150 + 10_000 * (luck - 0.25));
      if (isGone) throw new Error('cut off');
      if (!this.isCalm) this.#perhapsFail();
      tell('taken');
    } catch (error) {
      if (error instanceof PermanentError) this.#refused.add(`${lane} ${event.id}`);
      tell(String(error));
      throw error;
    } finally {
      leave();
    }
  }

  #perhapsFail(): void {
    const luck = this.#random();
    if (luck > 0.03) return;
    this.failures += 1;
    if (luck < 0.006) throw new PermanentError('never');
    if (luck < 0.018) throw new RetryAfter(5000 * luck);
    throw new Error('not now');
  }
}

/** Runs relays one after the other, each on connections of its own, which somebody kills. */
async function relayUntil(
  bus: Bus,
  subscribers: readonly AttachedSubscriber[],
  until: () => boolean,
  bell: Bell,
) {
  while (!until()) {
    const { db, close } = await connect(bus.url);
    const life = Date.now() + 2 * SECOND;
    while (!until() && Date.now() < life) {
      await relay({ db, subscribers, until: life + SECOND, bell }).catch(() => undefined);
      await sleep(20);
    }
    await close();
  }
}

/** Emits in transactions that overlap, last, and are rolled back now and then. @returns how many events it committed. */
async function produce(
  bus: Bus,
  random: () => number,
  until: () => boolean,
  bells: readonly Bell[],
): Promise<number> {
  const client = new pg.Client(bus.url);
  await client.connect();
  let committed = 0;
  while (!until()) {
    await client.query('begin');
    await sleep(random() * 8);
    const count = random() < 0.3 ? 3 : 1;
    const topics = new Set<string>();
    for (let number = 0; number < count; number += 1) {
      const topic = random() < 0.5 ? 'payment.captured' : 'booking.created';
      const orderingKey = topic === 'booking.created' ? `key ${Math.floor(random() * 12)}` : '';
      await emit(client, topic, payloadOf(topic), { orderingKey });
      topics.add(topic);
    }
    await sleep(random() < 0.1 ? random() * 200 : random() * 10);
    const isKept = random() > 0.1;
    await client.query(isKept ? 'commit' : 'rollback');
    if (isKept) committed += count;
    if (random() < 0.5) for (const bell of bells) bell.ring(topics);
  }
  await client.end();
  return committed;
}

test('nothing is lost, inverted or handed over twice at once while producers overlap, handlers fail and backends are killed', async ({
  bus,
}) => {
  const random = randomFrom(20_261_128);
  const story = new Story(random);
  const names = ['bookings', 'notifications'] as const;
  const attached = names.map((name) =>
    subscriber(name, {
      'payment.captured': (event, context) => story.handle(name, event, context),
      ...(name === 'notifications' && {
        'booking.created': (event: BusEvent<'booking.created'>, context: DeliveryContext) =>
          story.handle(name, event, context),
      }),
    }),
  );
  const endsAt = Date.now() + PLAY_MS;
  const bells = [new Bell(), new Bell(), new Bell()];
  // On a busy machine few events are handed over in this time.
  const isEnough = () => Date.now() >= endsAt && story.failures > 0;
  let isOver = false;
  const relays = bells.map((bell) => relayUntil(bus, attached, () => isOver, bell));
  const killing = (async () => {
    while (!isEnough()) {
      await sleep(300 + random() * 600);
      await rows(
        bus.db,
        `select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and query like 'select postbud_turn%' and pid <> pg_backend_pid() and random() < 0.4`,
      );
    }
  })();
  const hurrying = (async () => {
    while (!isOver) {
      await sleep(150);
      await rows(bus.db, HURRY);
      await rows(bus.db, REPLAY);
    }
  })();
  const produced = await Promise.all(Array.from({ length: 5 }, () => produce(bus, random, isEnough, bells)));
  story.isCalm = true;
  await killing;
  const attachedNames = [...names];
  await expect
    .poll(
      () =>
        rows(
          bus.db,
          `select from deliveries where is_open and subscriber = any ($1::text[])
             and (subscriber = 'notifications' or topic = 'payment.captured') union all select from awaiting`,
          [`{${attachedNames.join(',')}}`],
        ),
      { timeout: 60_000 },
    )
    .toEqual([]);
  isOver = true;
  await Promise.all([...relays, hurrying]);
  const events = await rows<{ id: string }>(bus.db, 'select id::text from events order by created_at, seq');
  expect(events).toHaveLength(produced.reduce((sum, count) => sum + count, 0));
  const placeOf = new Map(events.map(({ id }, place) => [id, place]));
  const deliveries = await rows<{ count: number }>(
    bus.db,
    `select count(*)::int as count from deliveries where subscriber = any ($1::text[])
       and (subscriber = 'notifications' or topic = 'payment.captured') and state = 'delivered'`,
    [`{${attachedNames.join(',')}}`],
  );
  let distinct = 0;
  for (const [lane, told] of story.told) {
    for (const moment of ['begun', 'taken']) {
      const seen = new Set<string>();
      let newest = -1;
      for (const { id, what, mayBeLate } of told) {
        if (what !== moment || seen.has(id)) continue;
        seen.add(id);
        const place = placeOf.get(id)!;
        if (!mayBeLate && place < newest)
          expect.fail(await inversion(bus, lane, told, [id, events[newest]!.id]));
        newest = Math.max(newest, place);
      }
      if (moment === 'taken') distinct += seen.size;
    }
  }
  expect(story.overlaps).toBe(0);
  // No relay died, so none has let a lease run out.
  expect(
    await rows(bus.db, `select * from exceptions where attempt_log @? '$[*] ? (@.kind == "lease_expired")'`),
  ).toEqual([]);
  expect(story.failures).toBeGreaterThan(0);
  expect(distinct).toBe(deliveries[0]!.count);
  expect(await contradictions(bus.db)).toEqual([]);
});

/** Says what happened to two deliveries, the first of which came after the second. */
async function inversion(bus: Bus, lane: string, told: readonly Told[], ids: readonly string[]) {
  const records = await rows<{ record: string }>(
    bus.db,
    `select to_jsonb(record)::text as record from deliveries as record
     where event_id = any ($1::uuid[]) and subscriber = $2 order by position`,
    [`{${ids.join(',')}}`, lane.split(' ')[0]],
  );
  // The claims and settlements that the first was part of.
  const journal = await rows<{ row: string }>(
    bus.db,
    `select jsonb_strip_nulls(to_jsonb(journal) - '{took_ms, ago_ms}'::text[])::text as row
     from journal join deliveries as record using (lane)
     where event_id = $1::uuid and subscriber = $2
       and record.position between least(first_claimed, first, head) and greatest(claimed_to, head)
     order by head, number`,
    [ids[0], lane.split(' ')[0]],
  );
  return [
    `out of order in ${lane}: ${ids.join(' after ')}`,
    ...told
      .filter(({ id }) => ids.includes(id))
      .map(({ at, id, attempt, what }) => `${at} ${id} attempt ${attempt}: ${what}`),
    ...records.map(({ record }) => record),
    ...journal.map(({ row }) => row),
  ].join('\n');
}

/** What waits for a retry is due now. */
const HURRY = `update exceptions set next_attempt_at = clock_timestamp(), due_at = clock_timestamp() where due_at > clock_timestamp()`;

/** Puts all dead letters back. */
const REPLAY = `
  with dead as materialized (
    select lane, array_agg(position) as positions from exceptions where state = 'dead_lettered' group by lane order by lane
  ),
  locked as materialized (
    select postbud_lock_lanes_2(array_agg(lane)) from dead
  )
  select postbud_replay_1(lane, positions, '{"outcome": "replayed"}', clock_timestamp()) from locked, dead`;
