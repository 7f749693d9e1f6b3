import type { Change } from './build.ts';
import type { Rule } from './promises/promises.ts';

/** A mistake that the checker must notice, written into the bus for the length of a run. */
export interface Mutation {
  readonly name: string;
  /** Which rules it breaks. Another one that is broken does not count: that would be another mistake. */
  readonly breaks: readonly Rule[];
  readonly changes: readonly Change[];
}

export const MUTATIONS: readonly Mutation[] = [
  {
    name: 'no-fence',
    breaks: ['order'],
    changes: [
      {
        file: 'lib/deliveries/fan-out.ts',
        from: 'case when opening.lock is null then $2::text::timestamptz else opening.until end as until',
        to: `greatest($2::text::timestamptz, 'infinity') as until`,
      },
    ],
  },
  {
    name: 'fence-clock-after-locks',
    breaks: ['order'],
    changes: [
      {
        file: 'lib/deliveries/claim.ts',
        from: `  fence as materialized (
    select clock_timestamp() as at where exists (select from awaiting_fan_out)
  ),
  survey as materialized (
    select to_char(fence.at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at, (
      select coalesce(jsonb_agg(jsonb_build_object('lock', objid::bigint, 'transaction', virtualtransaction)), '[]')
      from pg_locks
      where fence.at is not null and locktype = 'advisory' and mode = 'ShareLock' and granted
        and classid = \${EMITTER_LOCKS} and objsubid = 2
        and database = (select oid from pg_database where datname = current_database())
    ) as emitters
    from fence
  ),`,
        to: `  held_lock as materialized (
    select coalesce(jsonb_agg(jsonb_build_object('lock', objid::bigint, 'transaction', virtualtransaction)), '[]')
      as emitters
    from pg_locks
    where locktype = 'advisory' and mode = 'ShareLock' and granted
      and classid = \${EMITTER_LOCKS} and objsubid = 2
      and database = (select oid from pg_database where datname = current_database())
  ),
  survey as materialized (
    select to_char(clock_timestamp() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at, emitters
    from held_lock where exists (select from awaiting_fan_out)
  ),`,
      },
    ],
  },
  {
    name: 'settle-without-token',
    breaks: ['holder'],
    changes: [
      {
        file: 'lib/deliveries/settle.ts',
        from: 'where lanes.lease_token = outcome.token',
        to: 'where outcome.token is not null',
      },
    ],
  },
  {
    name: 'lease-shorter-than-limit',
    breaks: ['lease', 'overlap'],
    changes: [
      {
        file: 'lib/deliveries/subscription.ts',
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
        file: 'lib/relay/shared-commit.ts',
        from: `      if (isPromise(handled)) await handled;
`,
        to: `      try {
        await handled;
      } catch (error) {
        if (this.#attempts.length > 1) throw error;
        const { settle } = await import('../deliveries/settle.ts');
        const { waitAfter } = await import('./backoff.ts');
        const { failureOf } = await import('./failure.ts');
        const { kind, message, waitMs, isPermanent } = failureOf(error);
        const { delivery, atMs } = attempt;
        const { position } = delivery;
        const { maxAttempts } = lane.subscription.subscriber;
        const wait = waitMs ?? (isPermanent ? null : waitAfter(delivery.attempts + 1, maxAttempts));
        const durationMs = performance.now() - this.#startedAt;
        const next = wait === null ? null : atMs + durationMs + wait;
        const { from } = progress;
        await settle({ $client: tx } as never, [{
          id: lane.id, token: lane.token, from, to: next === null ? position : from, retryAtMs: next,
          keepUntilMs: null, carefulTo: null, neededVersion: null, delivered: [], unfinished: [{
            position, atMs, durationMs, outcome: waitMs === null ? 'failed' : 'waited', nextAttemptAtMs: next,
            kind, message, errorGroup: next === null ? { key: 'abcdefabcdefabcd', kind, message } : null,
          }],
        }], null);
        this.hasFailed = true;
        return;
      }
`,
      },
      {
        file: 'lib/relay/shared-commit.ts',
        from: `      await inTransaction(this.#work, (transaction) => this.#handle(transaction));
`,
        to: `      await inTransaction(this.#work, (transaction) => this.#handle(transaction));
      if (this.hasFailed) throw new LeaseLost();
`,
      },
    ],
  },
  {
    // Its lock in both senses: without the advisory one alone the second fan-out waits for the first at the first
    // marker that both would delete, and then finds it gone. So the order holds, which the runs confirm. Here each
    // takes the markers that no other has, as job queues do.
    name: 'fan-out-without-lock',
    breaks: ['order'],
    changes: [
      {
        file: 'lib/deliveries/fan-out.ts',
        from: 'select pg_try_advisory_xact_lock(${FAN_OUT_LOCK}, 0) as is_held',
        to: 'select true as is_held',
      },
      {
        file: 'lib/deliveries/fan-out.ts',
        from: 'order by created_at, seq limit ${FAN_OUT_LIMIT}\n',
        to: 'order by created_at, seq limit ${FAN_OUT_LIMIT} for update skip locked\n',
      },
    ],
  },
  {
    name: 'watermark-left-on-replay',
    breaks: ['outcome', 'consistency'],
    changes: [
      {
        file: 'lib/deliveries/replay.ts',
        from: 'set head = least(head, first.position - 1)',
        to: 'set head = head',
      },
    ],
  },
  {
    name: 'fan-out-by-own-catalog',
    breaks: ['outcome'],
    changes: [
      {
        file: 'lib/deliveries/fan-out.ts',
        from: `import { driverOf, run } from '../db/statement.ts';
`,
        to: `import { driverOf, run } from '../db/statement.ts';
import { topics } from '../catalog/catalog.ts';
const OWN = JSON.stringify(Object.fromEntries(topics().map(([topic, { subscribers }]) => [topic, subscribers])));
`,
      },
      {
        file: 'lib/deliveries/fan-out.ts',
        from: `    select *, nextval('delivery_positions') as position from (select * from picked order by created_at, seq) as in_order
`,
        to: `    select topic, created_at, seq, event_id, ordering_key, payload_bytes,
      array(select jsonb_array_elements_text('\${OWN}'::jsonb -> topic)) as subscribers,
      nextval('delivery_positions') as position
    from (select * from picked order by created_at, seq) as in_order
`,
      },
      {
        // Quietly, as it once was: the event counts those that it got.
        file: 'lib/deliveries/fan-out.ts',
        from: `  select (select count(*)::int from placed) as events,`,
        to: `  , recounted as (
    update events set open = cardinality(placed.subscribers) from placed where events.id = placed.event_id
  )
  select (select count(*)::int from placed) as events,`,
      },
    ],
  },
  {
    name: 'newer-version-handed-over',
    breaks: ['version'],
    changes: [
      {
        file: 'lib/deliveries/claim.ts',
        from: 'event.version > subscription.version',
        to: 'event.version > 1000',
      },
    ],
  },
  {
    name: 'batch-settled-past-its-failure',
    breaks: ['outcome', 'order'],
    changes: [
      {
        file: 'lib/relay/batch.ts',
        from: 'for (const attempt of this.#attempts.slice(0, taken)) this.#work.delivered(attempt, durationMs);',
        to: `for (const [index, attempt] of this.#attempts.entries())
      if (index !== taken) this.#work.delivered(attempt, durationMs);`,
      },
    ],
  },
  {
    name: 'innocent-burnt-by-shared-commit',
    breaks: ['attempts'],
    changes: [
      {
        file: 'lib/relay/shared-commit.ts',
        from: 'if (others.length === 0) {',
        to: 'if (others.length >= 0) {',
      },
    ],
  },
];
