import type { Change } from './build.ts';
import { limitings, timings } from './later.ts';
import type { Rule } from './promises/promises.ts';
import { crowdings, fencings, joinings, keyings, replayings, silences } from './schedule.ts';
import type { Schedules } from './schedule.ts';

const PLACE = 'drizzle/functions/postbud_place_3.sql';
const EMIT = 'drizzle/functions/postbud_emit.sql';
const SETTLE = 'drizzle/functions/postbud_settle_4.sql';
const CLAIM = 'drizzle/functions/postbud_claim_2.sql';
const DUE_LANES = 'drizzle/functions/postbud_due_lanes_1.sql';
const FIND_DUE = 'drizzle/functions/postbud_find_due_2.sql';
const REPLAY = 'drizzle/functions/postbud_replay_1.sql';
const RELEASE_TIMERS = 'drizzle/functions/postbud_release_timers_1.sql';
const CLAIM_LIMITED = 'drizzle/functions/postbud_claim_limited_2.sql';

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
        file: PLACE,
        from: '    certain_until := least(certain_until, began);\n',
        to: '',
      },
    ],
  },
  {
    name: 'fence-clock-after-locks',
    breaks: ['order'],
    schedules: fencings,
    changes: [
      {
        file: PLACE,
        from: '  if not is_quiet then\n',
        // The pause stands for a process that is preempted here now and then. Without it the race shows in one run of twenty.
        to: `  if is_quiet then
    perform pg_sleep((random() < 0.3)::int * 0.1);
    certain_until := clock_timestamp();
    number_now := coalesce(pg_sequence_last_value('awaiting_number_seq'), 0);
  else
`,
      },
    ],
  },
  {
    // What an open emitter has written is behind the bound at which the next turns begin.
    name: 'bound-passes-open-emitters',
    breaks: ['order', 'outcome'],
    schedules: fencings,
    changes: [
      {
        file: PLACE,
        from: '    next_bound := greatest(bound, certain_until);\n',
        to: '    next_bound := greatest(bound, clock_timestamp());\n',
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
    name: 'settle-without-number',
    breaks: ['holder', 'outcome', 'history', 'order'],
    changes: [
      {
        file: SETTLE,
        from: `coalesce(newest.token = outcome.token and (
        newest.number = outcome.number or is_doubtful and newest.number = outcome.number + 1 and newest.leased_until is not null
      ), false) as is_held`,
        to: 'true as is_held',
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
    name: 'effects-outside-of-the-transaction',
    breaks: ['effects'],
    changes: [
      {
        file: 'lib/bus/relay/shared-commit.ts',
        from: `    await hand((tx, limit) => {
      const context = Object.assign(attempt.contextWith(limit), { tx });
      return attempt.within(() => lane.subscription.handler(attempt.event, context));
    });`,
        to: `    await hand((_, limit) => state.options.db.transaction(async (tx) => {
      const context = Object.assign(attempt.contextWith(limit), { tx });
      await attempt.within(() => lane.subscription.handler(attempt.event, context));
    }));`,
      },
    ],
  },
  {
    // Each takes the markers that no other has, as job queues do.
    name: 'place-without-lock',
    breaks: ['order', 'outcome', 'consistency'],
    schedules: crowdings,
    changes: [
      {
        file: PLACE,
        from: 'if not pg_try_advisory_xact_lock(36952, topic_lock) then',
        to: 'if false then',
      },
      {
        file: PLACE,
        from: '      order by created_at, seq limit max_events\n',
        to: '      order by created_at, seq limit max_events for update skip locked\n',
      },
    ],
  },
  {
    name: 'replay-that-nobody-looks-at',
    breaks: ['outcome', 'consistency'],
    changes: [
      {
        file: REPLAY,
        from: '  perform postbud_make_due_1(',
        to: '  perform count(*) from unnest(',
      },
    ],
  },
  {
    name: 'newer-version-handed-over',
    breaks: ['version'],
    changes: [
      {
        file: CLAIM,
        from: 'bool_or(place.version > free.version)',
        to: 'bool_or(false)',
      },
      {
        file: CLAIM,
        from: 'bool_or(version > versions[turn])',
        to: 'bool_or(false)',
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
    name: 'parked-key-passed',
    breaks: ['outcome'],
    schedules: keyings,
    changes: [
      {
        file: 'lib/bus/relay/progress.ts',
        from: "    this.#record(one, 'parked');\n",
        to: '',
      },
    ],
  },
  {
    name: 'claim-beside-an-open-exception',
    breaks: ['order', 'overlap'],
    changes: [
      {
        file: DUE_LANES,
        from: 'and (slot > 0 or (select true from exceptions where exceptions.lane = lane.id and is_open limit 1) is null)',
        to: '',
      },
      {
        file: CLAIM,
        from: 'or slot = 0 and not is_lapsed and has_exceptions and (',
        to: 'or false and (',
      },
    ],
  },
  {
    name: 'key-handed-over-behind-its-exception',
    breaks: ['order', 'overlap'],
    schedules: keyings,
    changes: [
      {
        file: CLAIM,
        from: 'case when slot > 0 and has_exceptions then (',
        to: 'case when false then (',
      },
    ],
  },
  {
    name: 'successor-escapes-a-halt',
    breaks: ['halt'],
    changes: [
      {
        file: SETTLE,
        from: "kind in ('failed', 'waited', 'parked', 'running') or kind = 'dead' and halts as stays_open",
        to: "kind in ('failed', 'waited', 'parked', 'running') as stays_open",
      },
    ],
  },
  {
    name: 'silent-subscriber-is-handed-more',
    breaks: ['outage'],
    schedules: silences,
    changes: [
      {
        file: FIND_DUE,
        from: 'where not (asked.waits and exists (select from outages where outages.subscriber = lane.subscriber))',
        to: '',
      },
      {
        file: CLAIM,
        from: `    and (id = any (probes) or not waits[array_position(names, topic || ' ' || subscriber)] or not exists (
      select from outages where outages.subscriber = lane.subscriber
    ))`,
        to: '',
      },
    ],
  },
  {
    name: 'live-before-backfilled',
    breaks: ['backfill'],
    schedules: joinings,
    changes: [
      {
        file: DUE_LANES,
        from: `        and not exists (
          select from backfills
          where backfills.topic = lane.topic and backfills.subscriber = lane.subscriber and ended_at is null
        )`,
        to: '',
      },
      {
        file: CLAIM,
        from: `or exists (
            select from backfills`,
        to: `or false and exists (
            select from backfills`,
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
        from: '    -- A later time is of a clock that was ahead.',
        to: `    bound.taken_until := coalesce(nullif(current_setting('chaos.taken_' || limited, true), '')::timestamptz, '-infinity');`,
      },
      {
        file: CLAIM_LIMITED,
        from: `      else taken_until end
    where subscriber = limited;
`,
        to: `      else taken_until end
    where subscriber = limited;
    perform set_config('chaos.taken_' || limited, (bound.taken_until + coalesce(used, 0) * step)::text, false);
`,
      },
    ],
  },
];
