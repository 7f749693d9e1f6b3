import type { Change } from './build.ts';
import { limitings, timings } from './later.ts';
import type { Rule } from './promises/promises.ts';
import { crowdings, fencings, joinings, keyings, renamings, replayings } from './schedule.ts';
import type { Schedules } from './schedule.ts';

const FAN_OUT = 'drizzle/functions/postbud_fan_out_3.sql';
const EMIT = 'drizzle/functions/postbud_emit.sql';
const TURN = 'drizzle/functions/postbud_turn_4.sql';
const SETTLE_ALONE = 'drizzle/functions/postbud_settle_alone_3.sql';
const SETTLE = 'drizzle/functions/postbud_settle_3.sql';
const PLACE = 'drizzle/functions/postbud_place_2.sql';
const RESERVE = 'drizzle/functions/postbud_reserve_positions_1.sql';
const NEXT = 'drizzle/functions/postbud_next_2.sql';
const FRONT = 'drizzle/functions/postbud_front_1.sql';
const RELEASE_TIMERS = 'drizzle/functions/postbud_release_timers_1.sql';
const CLAIM_LIMITED = 'drizzle/functions/postbud_claim_limited_1.sql';

/** A mistake that is built into the bus for some runs, and that the checker must find. */
export interface Mutation {
  readonly name: string;
  /** The rules that it breaks. Other violations do not count: they would show another mistake. */
  readonly breaks: readonly Rule[];
  readonly changes: readonly Change[];
  /** The kind that shows it soon; all kinds when left out. */
  readonly schedules?: Schedules;
}

export const MUTATIONS: readonly Mutation[] = [
  {
    name: 'no-fence',
    breaks: ['order'],
    schedules: crowdings,
    changes: [
      {
        file: FAN_OUT,
        from: `case when coalesce(holders ? lock, false)
      then greatest((passed -> lock ->> 'at')::timestamptz, (began ->> lock)::timestamptz, '-infinity') else at end`,
        to: `'infinity'::timestamptz`,
      },
    ],
  },
  {
    // Whether it reads all locks, or tries those of the topics that wait.
    name: 'fence-clock-after-locks',
    breaks: ['order'],
    schedules: fencings,
    changes: [
      {
        file: FAN_OUT,
        from: `    ) as held;
`,
        // The pause stands for a process that is preempted here now and then. Without it the race shows in one run of twenty.
        to: `    ) as held;
    perform pg_sleep((random() < 0.3)::int * 0.1);
    at := clock_timestamp();
    select coalesce(pg_sequence_last_value('awaiting_fan_out_number_seq'), 0) into number_now;
`,
      },
      {
        file: FAN_OUT,
        from: `  if is_quiet then
    -- All that waits`,
        to: `  if is_quiet then
    perform pg_sleep((random() < 0.3)::int * 0.1);
    at := clock_timestamp();
    select coalesce(pg_sequence_last_value('awaiting_fan_out_number_seq'), 0) into number_now;
    -- All that waits`,
      },
    ],
  },
  {
    // What an open emitter has written is behind the number from which the next turns read.
    name: 'bound-passes-open-emitters',
    breaks: ['order', 'outcome'],
    changes: [
      {
        file: FAN_OUT,
        from: `'from', coalesce(memory_of -> 'from', to_jsonb(scan_from))`,
        to: `'from', number_now`,
      },
    ],
  },
  {
    name: 'sql-emit-without-lock',
    breaks: ['order'],
    changes: [
      {
        file: EMIT,
        from: '  perform pg_advisory_xact_lock_shared(36951, hashtext(known.topic));\n',
        to: '',
      },
    ],
  },
  {
    name: 'settle-without-token',
    breaks: ['holder'],
    changes: [
      {
        file: TURN,
        from: `
      if (locked.rows[array_position(locked.ids, outcome.id)]).lease_token = outcome.token then`,
        to: `
      if outcome.id = any (locked.ids) then`,
      },
      {
        file: SETTLE_ALONE,
        from: `
    if (locked.rows[array_position(locked.ids, outcome.id)]).lease_token = outcome.token then`,
        to: `
    if outcome.id = any (locked.ids) then`,
      },
      {
        file: SETTLE,
        from: 'continue when one.token is distinct from own.lease_token;',
        to: 'continue when own.id is null;',
      },
    ],
  },
  {
    name: 'lease-shorter-than-limit',
    breaks: ['lease', 'overlap'],
    changes: [
      {
        file: 'lib/bus/deliveries/subscription.ts',
        from: 'const leaseMs = subscriber.timeoutMs + LEASE_MARGIN_MS;',
        to: 'const leaseMs = subscriber.timeoutMs / 4;',
      },
    ],
  },
  {
    name: 'failure-in-handler-transaction',
    breaks: ['effects'],
    changes: [
      {
        file: 'lib/bus/relay/shared-commit.ts',
        from: `    await hand((tx, limit) => {
      const context = Object.assign(attempt.contextWith(limit), { tx });
      return attempt.within(() => lane.subscription.handler(attempt.delivery.event, context));
    });
`,
        to: `    let isSettled = false;
    await hand(async (tx, limit) => { try {
      const context = Object.assign(attempt.contextWith(limit), { tx });
      return await attempt.within(() => lane.subscription.handler(attempt.delivery.event, context));
    } catch (error) {
      if (attempts.length > 1) throw error;
      const { settlementValues } = await import('../deliveries/settle.ts');
      const { run } = await import('../../platform/db/statement.ts');
      const { waitAfter } = await import('../subscribers/backoff.ts');
      const { failureOf } = await import('./failure.ts');
      const { kind, message, waitMs, isPermanent } = failureOf(error);
      const { delivery, atMs } = attempt;
      const { position } = delivery;
      const { lane } = state;
      const { maxAttempts } = lane.subscription.subscriber;
      const wait = waitMs ?? (isPermanent ? null : waitAfter(delivery.attempts + 1, maxAttempts));
      const durationMs = attempt.elapsedMs;
      const next = wait === null ? null : atMs + durationMs + wait;
      const { from } = progress;
      await run(tx, {
        text: \`select postbud_settle_alone_3($1::postbud_outcome_2[], $2::bigint[], $3::bigint[], $4::text[],
          $5::float8[], $6::int[], $7::jsonb, $8::jsonb)\`,
        values: settlementValues([{
          id: lane.id, home: lane.home, token: lane.token, from, to: next === null ? position : from,
          retryAtMs: next, keepUntilMs: null, carefulTo: null, neededVersion: null, waits: false, delivered: [], leaving: [],
          unfinished: [{
            position, atMs, durationMs, outcome: waitMs === null ? 'failed' : 'waited', nextAttemptAtMs: next,
            kind, message, errorGroup: next === null ? { key: 'abcdefabcdefabcd', kind, message } : null,
          }],
        }]),
      });
      state.hasFailed = true;
      isSettled = true;
    } });
    if (isSettled) return;
`,
      },
      {
        file: 'lib/bus/relay/shared-commit.ts',
        from: `        return attempts;
      });
`,
        to: `        return state.hasFailed ? [] : attempts;
      });
      if (state.hasFailed) throw new LeaseLost();
`,
      },
      {
        file: 'lib/bus/relay/shared-commit.ts',
        from: "import { inOrder } from './in-order.ts';",
        to: "import { inOrder } from './in-order.ts'; import { LeaseLost } from '../deliveries/settle.ts';",
      },
    ],
  },
  {
    // Its lock in both senses: without the advisory one alone the second fan-out waits for the first at the first
    // marker that both would delete, and then finds it gone. So the order holds, which the runs confirm. Here each
    // takes the markers that no other has, as job queues do.
    name: 'fan-out-without-lock',
    breaks: ['order'],
    schedules: crowdings,
    changes: [
      {
        file: FAN_OUT,
        from: 'if not pg_try_advisory_xact_lock(36952, 0) then',
        to: 'if false then',
      },
      {
        file: FAN_OUT,
        from: ')) order by created_at, seq limit max_events',
        to: ')) order by created_at, seq limit max_events for update of waiting skip locked',
      },
      {
        file: FAN_OUT,
        from: '        order by created_at, seq limit max_events',
        to: '        order by created_at, seq limit max_events for update skip locked',
      },
      {
        file: FAN_OUT,
        from: '      placed := postbud_place_2(marker_ids);',
        // The pauses stand for processes that are preempted here. Without them the race shows in one run of twenty.
        to: '      perform pg_sleep(random() * 0.05); placed := postbud_place_2(marker_ids);',
      },
      {
        // The first two each insert the one row of this table, and with both of them every fan-out would fail.
        file: RESERVE,
        from: '    returning until into reserved.until;',
        to: '    where ctid = (select ctid from reserved_positions limit 1) returning until into reserved.until;',
      },
    ],
  },
  {
    name: 'watermark-left-on-replay',
    breaks: ['outcome', 'consistency'],
    changes: [
      {
        file: 'lib/bus/deliveries/operations/put-back.ts',
        from: 'set head = least(head, first.position - 1) - (lease_token is not null)::int',
        to: 'set head = head',
      },
    ],
  },
  {
    // Quietly, as it once was: the event counts those that it got.
    name: 'fan-out-by-own-catalog',
    breaks: ['outcome'],
    changes: [
      {
        file: 'lib/bus/deliveries/turn.ts',
        from: `import { driverOf, run, TURN_LIMIT_MS } from '../../platform/db/statement.ts';
`,
        to: `import { driverOf, run, TURN_LIMIT_MS } from '../../platform/db/statement.ts';
import { topics } from '../catalog/catalog.ts';
const OWN = JSON.stringify(Object.fromEntries(topics().map(([topic, { subscribers }]) => [topic, subscribers])));
`,
      },
      {
        file: 'lib/bus/deliveries/turn.ts',
        from: '$21::timestamptz) as answer`;',
        to: `$21::timestamptz) as answer
  from (select set_config('chaos.catalog', '\${OWN}', true) offset 0) as own\`;`,
      },
      {
        file: PLACE,
        from: `      select *, nextval('delivery_positions') as position
      from (select * from picked order by created_at, seq) as in_order
    )
`,
        to: `      select topic, created_at, seq, event_id, ordering_key, payload_bytes,
        array(select jsonb_array_elements_text(current_setting('chaos.catalog')::jsonb -> topic)) as subscribers,
        nextval('delivery_positions') as position
      from (select * from picked order by created_at, seq) as in_order
    ),
    recounted as (
      update events set open = cardinality(placed.subscribers) from placed where events.id = placed.event_id
    )
`,
      },
      {
        file: PLACE,
        from: `    into one;
    if found then
`,
        to: `    into one;
    if found then
      one.subscribers :=
        array(select jsonb_array_elements_text(current_setting('chaos.catalog')::jsonb -> one.topic));
      update events set open = cardinality(one.subscribers) where events.id = one.event_id;
`,
      },
    ],
  },
  {
    name: 'newer-version-handed-over',
    breaks: ['version'],
    changes: [
      {
        file: 'lib/bus/deliveries/claim.ts',
        from: 'event.version > subscription.version',
        to: 'event.version > 1000',
      },
      {
        file: 'lib/bus/relay/run-state.ts',
        from: 'event.version <= this.lane.subscription.version',
        to: 'event.version <= 1000',
      },
    ],
  },
  {
    name: 'batch-settled-past-its-failure',
    breaks: ['outcome', 'order'],
    changes: [
      {
        file: 'lib/bus/relay/batch.ts',
        from: 'for (const attempt of attempts.slice(0, taken)) attempt.deliver(durationMs);',
        to: `for (const [index, attempt] of attempts.entries())
    if (index !== taken) attempt.deliver(durationMs);`,
      },
    ],
  },
  {
    name: 'innocent-burnt-by-shared-commit',
    breaks: ['attempts'],
    changes: [
      {
        file: 'lib/bus/relay/shared-commit.ts',
        from: 'if (attempts.length > 1) {',
        to: 'if (attempts.length > COMMIT_DELIVERIES) {',
      },
    ],
  },
  {
    name: 'lane-of-key-deleted-too-early',
    breaks: ['order', 'outcome'],
    changes: [
      {
        file: SETTLE,
        from: '      is_through := not exists (',
        to: '      is_through := own.head <> one.head_is or not exists (',
      },
    ],
  },
  {
    name: 'key-handed-over-by-both-its-lanes',
    breaks: ['order', 'overlap', 'holder'],
    changes: [
      {
        file: NEXT,
        from: 'and (in_trouble is null or next.lane_key <> all (in_trouble))',
        to: '',
      },
    ],
  },
  {
    // A key in trouble waits behind the head of the lane that it shares.
    name: 'rename-loses-waiting',
    breaks: ['rename', 'outcome', 'consistency'],
    schedules: renamings,
    changes: [
      {
        file: 'lib/bus/deliveries/operations/rename-open.ts',
        from: 'least(head, (select min(own.head) from lanes as own where own.home_id = lanes.id)) as settled_to',
        to: 'head as settled_to',
      },
    ],
  },
  {
    name: 'successor-escapes-a-halt',
    breaks: ['halt'],
    changes: [
      {
        file: FRONT,
        from: `      and deliveries.state = 'dead_lettered' and deliveries.dismissed_at is null
  ))`,
        to: `      and deliveries.state = 'dead_lettered' and deliveries.dismissed_at is null and false
  ))`,
      },
      {
        // The lane of a halted key is kept by a check of its own. Without a front it would be claimed and let go without end.
        file: SETTLE,
        from: 'and not (is_bounded and exists (',
        to: 'and not (false and exists (',
      },
    ],
  },
  {
    name: 'outage-burns-attempts-of-others',
    breaks: ['outage'],
    schedules: keyings,
    changes: [
      {
        file: TURN,
        from: 'select exists (select from outages where recovered_at is null), (select',
        to: 'select false, (select',
      },
    ],
  },
  {
    name: 'live-before-backfilled',
    breaks: ['backfill'],
    schedules: joinings,
    changes: [
      {
        file: FRONT,
        from: 'of_subscriber and ended_at is null\n  ), (',
        to: 'of_subscriber and ended_at is null and false\n  ), (',
      },
    ],
  },
  {
    name: 'replay-reaches-refusing',
    breaks: ['refusal'],
    changes: [
      {
        file: 'lib/bus/deliveries/operations/replay-matching.ts',
        from: 'from found where is_listed and not refuses',
        to: 'from found where is_listed',
      },
    ],
  },
  {
    // The second line: what a release puts back that does not know of the refusal.
    name: 'refused-replay-handed-over',
    breaks: ['refusal'],
    schedules: replayings,
    changes: [
      {
        file: 'lib/bus/subscribers/subscriber.ts',
        from: "if (deliveries.some(({ replayed }) => replayed)) throw new NotDelivered('replay_refused', REFUSED);",
        to: '',
      },
    ],
  },
  {
    // It reads a timer, and does not lock it before it records the event.
    name: 'cancelled-timer-released',
    breaks: ['timer'],
    schedules: timings,
    changes: [
      { file: RELEASE_TIMERS, from: ' for update skip locked', to: '' },
      {
        file: RELEASE_TIMERS,
        from: 'delete from timers where id = any (taken[place:place + portion - 1]) returning *',
        to: `select * from timers where id = any (taken[place:place + portion - 1])
      ),
      gone as (
        delete from timers where id = any (taken[place:place + portion - 1])`,
      },
    ],
  },
  {
    // Each connection of a relay knows what it has taken itself.
    name: 'rate-counted-by-each-relay',
    breaks: ['rate'],
    schedules: limitings,
    changes: [
      {
        file: CLAIM_LIMITED,
        from: '      -- A later time is of a clock that was ahead.',
        to: `      bound.taken_until := nullif(current_setting('chaos.taken_' || limited, true), '');`,
      },
      {
        file: CLAIM_LIMITED,
        from: `      where subscriber_limits.subscriber = limited;
`,
        to: `      where subscriber_limits.subscriber = limited;
      perform set_config('chaos.taken_' || limited, (bound.taken_until + used * step)::text, false);
`,
      },
    ],
  },
  {
    // The lane of a key is let go although more of the key waits: the limit allows nothing more now.
    name: 'lane-overtaken-at-its-limit',
    breaks: ['order'],
    schedules: limitings,
    changes: [
      {
        file: SETTLE,
        from: '      is_through := not exists (',
        to: `      is_through := exists (select from subscriber_limits where subscriber = own.subscriber and taken_until > at) or not exists (`,
      },
    ],
  },
];
