import { sql } from 'drizzle-orm';
import {
  bigint,
  boolean,
  check,
  customType,
  date,
  doublePrecision,
  index,
  integer,
  jsonb,
  numeric,
  pgEnum,
  pgTable,
  pgView,
  primaryKey,
  smallint,
  text,
  timestamp,
  uniqueIndex,
  uuid,
} from 'drizzle-orm/pg-core';

/** Ordered from best to worst, so that `max()` of the states of an event's deliveries is the event's. */
export const stateEnum = pgEnum('delivery_state', ['delivered', 'pending', 'failing', 'dead_lettered']);

/** JavaScript has no date for -infinity or the year 294276. */
const IN_RANGE = sql`created_at >= '1970-01-01 00:00:00Z' and created_at < '10000-01-01 00:00:00Z'`;

const at = (name: string) => timestamp(name, { withTimezone: true });

/** What happened: one row per event, written by `emit` in the producer's transaction. Later only an erasure changes it. */
export const events = pgTable(
  'events',
  {
    /** UUIDv7. */
    id: uuid('id').primaryKey(),
    topic: text('topic').notNull(),
    payload: jsonb('payload').$type<Record<string, unknown>>().notNull(),
    /** The version of the payload's schema when the event was emitted. */
    version: smallint('version').notNull(),
    /** The database's clock at the insert, not at the start of the transaction. */
    createdAt: at('created_at').notNull(),
    /** Breaks ties of `createdAt`. */
    seq: bigint('seq', { mode: 'number' }).notNull().generatedAlwaysAsIdentity(),
    /** Empty when the topic is one order. */
    orderingKey: text('ordering_key').notNull().default(''),
    producer: text('producer').notNull(),
    dedupeKey: text('dedupe_key'),
    correlationId: text('correlation_id'),
    causationId: text('causation_id'),
    traceparent: text('traceparent'),
    /** When the timer was due that became this event; null of any other one. */
    dueAt: at('due_at'),
    /** When its personal data was overwritten, at an operator's word. */
    erasedAt: at('erased_at'),
    /** The topic's subscribers in the catalog of the emitting release. */
    subscribers: text('subscribers').array().notNull(),
  },
  (table) => [
    uniqueIndex('events_dedupe')
      .on(table.topic, table.dedupeKey)
      .where(sql`dedupe_key is not null`),
    // Where room of pruned events is used again, a range has old and new ones.
    index('events_seq')
      .using('brin', sql`${table.seq} int8_minmax_multi_ops`)
      .with({ pages_per_range: 64, autosummarize: true }),
    check('events_created_at', IN_RANGE),
  ],
);

/**
 * Events that happen later. Written by `emit` with `at`; the release deletes a timer and records its event in one
 * transaction. No turn reads them.
 */
export const timers = pgTable(
  'timers',
  {
    /** The id of the event that it becomes: a UUIDv7 of the time when it is due. Another one once it is moved. */
    id: uuid('id').primaryKey(),
    topic: text('topic').notNull(),
    /** Null of a timer that its producer can neither move nor cancel. */
    timerKey: text('timer_key'),
    dueAt: at('due_at').notNull(),
    /** Breaks ties of `dueAt`: of two, the one that was set or moved first comes first. */
    seq: bigint('seq', { mode: 'number' }).notNull().generatedAlwaysAsIdentity(),
    payload: jsonb('payload').$type<Record<string, unknown>>().notNull(),
    version: smallint('version').notNull(),
    producer: text('producer').notNull(),
    orderingKey: text('ordering_key').notNull(),
    dedupeKey: text('dedupe_key'),
    correlationId: text('correlation_id').notNull(),
    causationId: text('causation_id'),
    traceparent: text('traceparent'),
    setAt: at('set_at').notNull(),
    erasedAt: at('erased_at'),
    /** When the catalog refused its payload: it waits for an operator, who repairs or cancels it. */
    refusedAt: at('refused_at'),
  },
  (table) => [
    uniqueIndex('timers_key')
      .on(table.timerKey, table.topic)
      .where(sql`timer_key is not null`),
    uniqueIndex('timers_due')
      .on(table.dueAt, table.seq)
      .where(sql`refused_at is null`),
    // By what operators search.
    index('timers_topic').on(table.topic, table.dueAt, table.seq),
    index('timers_refused')
      .on(table.dueAt, table.seq)
      .where(sql`refused_at is not null`),
    check('timers_due_at', sql`due_at >= '1970-01-01 00:00:00Z' and due_at < '10000-01-01 00:00:00Z'`),
  ],
);

/**
 * The dedupe keys that timers were set, moved or cancelled with. Unlike a timer's row they stay after it, so that a repeated
 * request neither sets it again nor moves it back.
 */
export const timerDedupeKeys = pgTable(
  'timer_dedupe_keys',
  {
    topic: text('topic').notNull(),
    dedupeKey: text('dedupe_key').notNull(),
    /** The timer that it set; of a cancellation the one that it cancelled, null where there was none. */
    timerId: uuid('timer_id'),
    at: at('at').notNull(),
  },
  (table) => [primaryKey({ columns: [table.topic, table.dedupeKey] })],
);

/** The catalog of the release that migrated last, as the SQL function `postbud_emit` reads it. */
export const catalogTopics = pgTable(
  'catalog_topics',
  {
    topic: text('topic').primaryKey(),
    producer: text('producer').notNull(),
    subscribers: text('subscribers').array().notNull(),
    version: smallint('version').notNull(),
    /** The field that is the ordering key. Null when the topic is one order. */
    orderedBy: text('ordered_by'),
    /** JSON Schemas by payload version: this one's, and those of earlier catalogs, which producers may still write. */
    schemas: jsonb('schemas').$type<Readonly<Record<string, object>>>().notNull(),
  },
  () => [check('catalog_topics_version', sql`version > 0 and schemas ? version::text`)],
);

/** What `npm run grant` granted to roles of the database; `postbud_apply_grants_1` makes their rights so. */
export const roleGrants = pgTable(
  'role_grants',
  {
    role: text('role').notNull(),
    /** `emit`: the topics of `producer`. `relay`: all that the functions and relays do. `read`: look. */
    may: text('may').$type<'emit' | 'relay' | 'read'>().notNull(),
    /** Empty but for `emit`. */
    producer: text('producer').notNull().default(''),
  },
  (table) => [
    primaryKey({ columns: [table.role, table.may, table.producer] }),
    check('role_grants_may', sql`may in ('emit', 'relay', 'read') and (may = 'emit') = (producer <> '')`),
  ],
);

/** Marks the events whose place is not certain yet: `emit` writes a row, and the turn that places its event deletes it. */
export const awaiting = pgTable(
  'awaiting',
  {
    topic: text('topic').notNull(),
    createdAt: at('created_at').notNull(),
    seq: bigint('seq', { mode: 'number' }).notNull(),
    /**
     * Drawn under the emitter's lock, and only growing: whoever looks for what is new begins where it has looked up to, and
     * reads none of the dead rows before it.
     */
    number: bigint('number', { mode: 'number' }).notNull().generatedAlwaysAsIdentity(),
    eventId: uuid('event_id').notNull(),
    orderingKey: text('ordering_key').notNull(),
    version: smallint('version').notNull(),
    /** Size of the payload as text. */
    bytes: integer('bytes').notNull(),
    /** Copied from the event, so that placing need not read it. */
    subscribers: text('subscribers').array().notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.topic, table.createdAt, table.seq] }),
    check('awaiting_created_at', IN_RANGE),
  ],
);

/** What the bus set aside so that it stops nothing else: rows that should not exist, and the times of a wrong clock. */
export const setAside = pgTable(
  'set_aside',
  {
    id: bigint('id', { mode: 'number' }).primaryKey().generatedAlwaysAsIdentity(),
    at: at('at').notNull(),
    /**
     * `unfit_marker`: an event that cannot get its place. `unfit_timer`: a timer whose payload the catalog refuses.
     * `clock_was_ahead`: the database's clock went back.
     */
    kind: text('kind').notNull(),
    /** Empty where it concerns no one topic. */
    topic: text('topic').notNull(),
    eventId: uuid('event_id'),
    /** The row, or what was found. */
    found: jsonb('found').notNull(),
    repairedAt: at('repaired_at'),
    repairedBy: text('repaired_by'),
    reason: text('reason'),
  },
  (table) => [
    index('set_aside_open')
      .on(table.topic, table.kind)
      .where(sql`repaired_at is null`),
    check('set_aside_repaired', sql`(repaired_at is null) = (repaired_by is null)`),
  ],
);

/** One order each: a topic, or one of eight slots of a topic with ordering keys. Rows never change. */
export const streams = pgTable(
  'streams',
  {
    id: integer('id').primaryKey().generatedAlwaysAsIdentity(),
    topic: text('topic').notNull(),
    /** 0 for the events without an ordering key, else 1 to 8 (`postbud_slot`). */
    slot: smallint('slot').notNull(),
  },
  (table) => [uniqueIndex('streams_topic_slot').on(table.topic, table.slot)],
);

/** Number of streams that the ordering keys of a topic share. `slot` counts them from 1. */
export const SLOTS = 8;

/** From this position on, until the next row, the events of a stream are for these subscribers. */
export const audiences = pgTable(
  'audiences',
  {
    stream: integer('stream').notNull(),
    position: bigint('position', { mode: 'number' }).notNull(),
    subscribers: text('subscribers').array().notNull(),
  },
  (table) => [primaryKey({ columns: [table.stream, table.position] })],
);

/** The place of each event in its stream, which never changes. Positions are dense: 1, 2, 3 and so on, in (createdAt, seq) order. */
export const log = pgTable(
  'log',
  {
    position: bigint('position', { mode: 'number' }).notNull(),
    /** Null where the event is pruned, and the place is the newest of its stream: the next one comes after it. */
    eventId: uuid('event_id'),
    stream: integer('stream').notNull(),
    /** Size of the event's payload as text, so that a claim can stop before it reads too much. */
    bytes: integer('bytes').notNull(),
    version: smallint('version').notNull(),
    orderingKey: text('ordering_key').notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.stream, table.position] }),
    // Ids are UUIDv7 and rows are inserted in event order, so block ranges find an event's place cheaply.
    index('log_event')
      .using('brin', sql`${table.eventId} uuid_minmax_multi_ops`)
      .with({ pages_per_range: 64, autosummarize: true }),
    // Finds the events of a key among those of all keys, and the one before another.
    index('log_keys')
      .on(table.stream, table.orderingKey, table.position)
      .where(sql`ordering_key <> ''`),
    // As long as an index can hold.
    check('log_ordering_key', sql`octet_length(ordering_key) <= 1024`),
  ],
);

/**
 * A subscriber of a stream. Rows change when a subscriber is renamed, and go when it is retired. Who writes to a lane's journal or exceptions holds its advisory lock
 * (`postbud_lock_lanes_2`).
 */
export const lanes = pgTable(
  'lanes',
  {
    id: integer('id').primaryKey().generatedAlwaysAsIdentity(),
    stream: integer('stream').notNull(),
    topic: text('topic').notNull(),
    slot: smallint('slot').notNull(),
    subscriber: text('subscriber').notNull(),
  },
  (table) => [
    uniqueIndex('lanes_stream_subscriber').on(table.stream, table.subscriber),
    index('lanes_subscriber').on(table.subscriber, table.topic),
  ],
);

/**
 * How far each lane has come, and who holds it: a row a claim, a row a settlement. Heads never move back, so the newest row of
 * a lane, which counts, is the last by (head, number).
 */
export const journal = pgTable(
  'journal',
  {
    lane: integer('lane').notNull(),
    number: bigint('number', { mode: 'number' }).notNull(),
    /** All deliveries up to here are dealt with, or are open exceptions. */
    head: bigint('head', { mode: 'number' }).notNull(),
    at: at('at').notNull(),
    /** Of the relay that holds the lane, or that settled it last. */
    token: uuid('token'),
    /** Until when the lane is held; null where it is free. */
    leasedUntil: at('leased_until'),
    /** While it is held: the first delivery that its relay may have begun, and the last. */
    firstClaimed: bigint('first_claimed', { mode: 'number' }),
    claimedTo: bigint('claimed_to', { mode: 'number' }),
    /** Up to here deliveries are handed over one at a time, because a relay died while it delivered them. */
    carefulTo: bigint('careful_to', { mode: 'number' }),
    /** How many handlers may run at once under this lease. */
    handlers: smallint('handlers'),
    /**
     * Of a settlement: from `first` to `head`, how long each delivery's handler took, and how long before `at` it ended, in
     * milliseconds. Null for those that are exceptions, or for others.
     */
    first: bigint('first', { mode: 'number' }),
    tookMs: integer('took_ms').array(),
    agoMs: integer('ago_ms').array(),
    /** Attempts in this settlement, those of exceptions too. */
    delivered: integer('delivered'),
    failed: integer('failed'),
    deadLettered: integer('dead_lettered'),
    /** Whether somebody answered one of them, if only with an error. */
    isAnswered: boolean('is_answered'),
  },
  (table) => [primaryKey({ columns: [table.lane, table.head, table.number] })],
);

/** How far the cron has read each lane's journal, and what it found: totals never decrease, also after a prune. */
export const laneTotals = pgTable('lane_totals', {
  lane: integer('lane').primaryKey(),
  head: bigint('head', { mode: 'number' }).notNull(),
  number: bigint('number', { mode: 'number' }).notNull(),
  delivered: bigint('delivered', { mode: 'number' }).notNull().default(0),
  failed: bigint('failed', { mode: 'number' }).notNull().default(0),
  deadLettered: bigint('dead_lettered', { mode: 'number' }).notNull().default(0),
  lastDeliveredAt: at('last_delivered_at'),
  lastFailedAt: at('last_failed_at'),
});

/** One earlier attempt of a delivery, or one operator's action on it. */
export interface PastAttempt {
  /** 0 for an operator's action. */
  readonly attempt: number;
  /** ISO 8601, UTC. */
  readonly at: string;
  readonly durationMs: number;
  readonly outcome:
    | 'failed'
    | 'delivered'
    | 'waited'
    | 'replayed'
    | 'retried_early'
    /** The attempt after it cost nothing, if it failed. */
    | 'probed'
    | 'skipped'
    | 'dismissed'
    | 'backfilled'
    | 'renamed'
    /** By release 1.x: the attempts before it, which found nobody there, are not counted. */
    | 'returned';
  readonly kind?: string;
  readonly message?: string;
  /** The beginning of what a component elsewhere answered when it refused the event, without personal data. */
  readonly answer?: string;
  /**
   * The key of the group of a failure's error, which a dead letter of it has too. Of `replayed`: that of the dead letter; null
   * of none. Older releases do not record it.
   */
  readonly group?: string | null;
  /** Of an operator's action: the operator, the reason, and the replay. */
  readonly by?: string;
  readonly reason?: string | null;
  readonly replayId?: string;
  /** Of `probed`: when the next attempt is due if that one fails. */
  readonly keeps?: string;
}

/**
 * Deliveries with a story: failed, parked, running for long, replayed, backfilled. Of all others the record is their place and
 * their lane's head; the view `deliveries` has both. The last attempt is in columns; earlier ones are in `attemptLog`.
 */
export const exceptions = pgTable(
  'exceptions',
  {
    lane: integer('lane').notNull(),
    position: bigint('position', { mode: 'number' }).notNull(),
    eventId: uuid('event_id').notNull(),
    orderingKey: text('ordering_key').notNull(),
    state: stateEnum('state').notNull(),
    /**
     * While it is open it holds back what comes after it: in a stream without keys all, else its key. A dead letter that is
     * open halts them.
     */
    isOpen: boolean('is_open').notNull(),
    /** Whether the relay that holds the lane has it in hand, for longer than one settlement. */
    isHeld: boolean('is_held').notNull().default(false),
    /** When a relay has to look: of the first open one of its key. Null of those behind it. */
    dueAt: at('due_at'),
    /** Attempts begun since it was placed, or since the last replay. */
    attempts: smallint('attempts').notNull().default(0),
    /** Start of the last attempt. */
    attemptedAt: at('attempted_at'),
    durationMs: integer('duration_ms'),
    nextAttemptAt: at('next_attempt_at'),
    deliveredAt: at('delivered_at'),
    deadLetteredAt: at('dead_lettered_at'),
    /**
     * Of a dead letter that an operator dismissed, in place of `deadLetteredAt` and `errorGroup`: no list shows it as a dead
     * letter. All that one dismissal took have the same instant, that of its `operator_actions`.
     */
    dismissedAt: at('dismissed_at'),
    replayedAt: at('replayed_at'),
    replays: smallint('replays').notNull().default(0),
    /** Whether a backfill wrote it. Health keeps its times apart, like a replay's. */
    backfilled: boolean('backfilled').notNull().default(false),
    /** Of a dead letter that is not dismissed: the key of its error group. */
    errorGroup: text('error_group'),
    attemptLog: jsonb('attempt_log').$type<readonly PastAttempt[]>(),
  },
  (table) => [
    primaryKey({ columns: [table.lane, table.position] }),
    index('exceptions_open')
      .on(table.lane, table.orderingKey, table.position)
      .where(sql`is_open`),
    // What blocks lanes and keys, among all that waits in them.
    index('exceptions_blocking')
      .on(table.lane, table.state, table.orderingKey, table.position)
      .where(sql`is_open and state in ('failing', 'dead_lettered')`),
    index('exceptions_due')
      .on(table.lane, table.dueAt)
      .where(sql`due_at is not null`),
    // Operators page through dead letters by these two: all of them, or those of one group.
    index('exceptions_dead_letters')
      .on(table.deadLetteredAt, table.lane, table.position)
      .where(sql`dead_lettered_at is not null`),
    index('exceptions_errors')
      .on(table.errorGroup, table.deadLetteredAt, table.lane, table.position)
      .where(sql`error_group is not null`),
    index('exceptions_delivered')
      .on(table.deliveredAt)
      .where(sql`delivered_at is not null`),
    index('exceptions_replays')
      .on(table.replayedAt)
      .where(sql`replayed_at is not null`),
    index('exceptions_dismissed')
      .on(table.dismissedAt)
      .where(sql`dismissed_at is not null`),
    check(
      'exceptions_state',
      sql`(state = 'delivered') = (delivered_at is not null) and (state = 'dead_lettered') = (coalesce(dead_lettered_at, dismissed_at) is not null) and (is_open or due_at is null and not is_held)`,
    ),
  ],
);

/** One record for each event and subscriber: the text is in `drizzle/functions/deliveries.sql`. */
export const deliveries = pgView('deliveries', {
  lane: integer('lane').notNull(),
  position: bigint('position', { mode: 'number' }).notNull(),
  eventId: uuid('event_id').notNull(),
  topic: text('topic').notNull(),
  subscriber: text('subscriber').notNull(),
  orderingKey: text('ordering_key').notNull(),
  state: stateEnum('state').notNull(),
  isOpen: boolean('is_open').notNull(),
  attempts: smallint('attempts').notNull(),
  attemptedAt: at('attempted_at'),
  durationMs: integer('duration_ms'),
  nextAttemptAt: at('next_attempt_at'),
  deliveredAt: at('delivered_at'),
  deadLetteredAt: at('dead_lettered_at'),
  dismissedAt: at('dismissed_at'),
  replayedAt: at('replayed_at'),
  replays: smallint('replays').notNull(),
  backfilled: boolean('backfilled').notNull(),
  errorGroup: text('error_group'),
  attemptLog: jsonb('attempt_log').$type<readonly PastAttempt[]>(),
}).existing();

/** Each lane with the newest row of its journal, and its tail: `drizzle/functions/lane_heads.sql`. */
export const laneHeads = pgView('lane_heads', {
  id: integer('id').notNull(),
  stream: integer('stream').notNull(),
  topic: text('topic').notNull(),
  slot: smallint('slot').notNull(),
  subscriber: text('subscriber').notNull(),
  number: bigint('number', { mode: 'number' }).notNull(),
  head: bigint('head', { mode: 'number' }).notNull(),
  tail: bigint('tail', { mode: 'number' }).notNull(),
  at: at('at').notNull(),
  token: uuid('token'),
  leasedUntil: at('leased_until'),
  firstClaimed: bigint('first_claimed', { mode: 'number' }),
  claimedTo: bigint('claimed_to', { mode: 'number' }),
  carefulTo: bigint('careful_to', { mode: 'number' }),
  handlers: smallint('handlers'),
}).existing();

/** What became of each lane's attempts: `drizzle/functions/lane_outcomes.sql`. */
export const laneOutcomes = pgView('lane_outcomes', {
  lane: integer('lane').notNull(),
  topic: text('topic').notNull(),
  subscriber: text('subscriber').notNull(),
  delivered: numeric('delivered', { mode: 'number' }).notNull(),
  failed: numeric('failed', { mode: 'number' }).notNull(),
  deadLettered: numeric('dead_lettered', { mode: 'number' }).notNull(),
  lastDeliveredAt: at('last_delivered_at'),
  lastFailedAt: at('last_failed_at'),
}).existing();

/** What each lane has to deliver: `drizzle/functions/states_of_lanes.sql`. */
export const statesOfLanes = pgView('states_of_lanes', {
  lane: integer('lane').notNull(),
  stream: integer('stream').notNull(),
  topic: text('topic').notNull(),
  subscriber: text('subscriber').notNull(),
  head: bigint('head', { mode: 'number' }).notNull(),
  tail: bigint('tail', { mode: 'number' }).notNull(),
  /** Places up to the head whose deliveries are open or dead letters. */
  exceptional: bigint('exceptional', { mode: 'number' }).notNull(),
  pending: bigint('pending', { mode: 'number' }).notNull(),
  failing: bigint('failing', { mode: 'number' }).notNull(),
  /** Keys that a dead letter holds back, or the lane itself. */
  halted: bigint('halted', { mode: 'number' }).notNull(),
  deadLettered: bigint('dead_lettered', { mode: 'number' }).notNull(),
}).existing();

/** What each subscription has to deliver, and has delivered: `drizzle/functions/subscription_counts.sql`. */
export const subscriptionCounts = pgView('subscription_counts', {
  topic: text('topic').notNull(),
  subscriber: text('subscriber').notNull(),
  pending: bigint('pending', { mode: 'number' }).notNull(),
  failing: bigint('failing', { mode: 'number' }).notNull(),
  /** Lanes, or keys in them, that a dead letter holds back. */
  halted: bigint('halted', { mode: 'number' }).notNull(),
  deadLettered: bigint('dead_lettered', { mode: 'number' }).notNull(),
  deliveredTotal: bigint('delivered_total', { mode: 'number' }).notNull(),
  /** Failed attempts, including the last one of a dead letter. */
  failedTotal: bigint('failed_total', { mode: 'number' }).notNull(),
  deadLetteredTotal: bigint('dead_lettered_total', { mode: 'number' }).notNull(),
  lastDeliveredAt: at('last_delivered_at'),
  lastFailedAt: at('last_failed_at'),
}).existing();

/** Deliveries of each topic by the minute, which the cron reads from the journal (`postbud_roll_up_1`). */
export const throughputMinutes = pgTable(
  'throughput_minutes',
  {
    minute: at('minute').notNull(),
    topic: text('topic').notNull(),
    delivered: bigint('delivered', { mode: 'number' }).notNull(),
    deadLettered: bigint('dead_lettered', { mode: 'number' }).notNull(),
  },
  (table) => [primaryKey({ columns: [table.minute, table.topic] })],
);

/**
 * The times of each subscriber since its first delivery (`total`), and the age of its backlog by the hour, for a day. Relays add
 * to the totals every few seconds, so they are approximate; exact counts are in `lane_totals`. The counts here, and the rows of
 * topics, are of releases before 2.0, as are days.
 */
export const subscriberHealth = pgTable(
  'subscriber_health',
  {
    subscriber: text('subscriber').notNull(),
    topic: text('topic').notNull(),
    /** `total` starts at the epoch. */
    period: text('period').$type<'hour' | 'day' | 'total'>().notNull(),
    startsAt: at('starts_at').notNull(),
    /** First deliveries, without replays. */
    delivered: bigint('delivered', { mode: 'number' }).notNull().default(0),
    /** Failed attempts, including the last one of a dead letter. */
    failed: bigint('failed', { mode: 'number' }).notNull().default(0),
    deadLettered: bigint('dead_lettered', { mode: 'number' }).notNull().default(0),
    replaysDelivered: bigint('replays_delivered', { mode: 'number' }).notNull().default(0),
    replaysDeadLettered: bigint('replays_dead_lettered', { mode: 'number' }).notNull().default(0),
    /** Times from an event's record to its delivery, without replays: counts in the buckets of `BOUNDS_MS`, and their sum. */
    deliveredIn: bigint('delivered_in', { mode: 'number' })
      .array()
      .notNull()
      .default(sql`'{}'`),
    deliveredMs: doublePrecision('delivered_ms').notNull().default(0),
    /** Times of handlers, of all attempts. */
    handledIn: bigint('handled_in', { mode: 'number' })
      .array()
      .notNull()
      .default(sql`'{}'`),
    handledMs: doublePrecision('handled_ms').notNull().default(0),
    /** The greatest age of the oldest unfinished delivery, of those sampled; null if there was none at any sample. */
    backlogAgeMs: doublePrecision('backlog_age_ms'),
  },
  (table) => [
    primaryKey({ columns: [table.subscriber, table.topic, table.period, table.startsAt] }),
    index('subscriber_health_start').on(table.period, table.startsAt, table.topic),
    check('subscriber_health_period', sql`period in ('hour', 'day', 'total')`),
  ],
);

/** One row for each error group of a subscription's dead letters. */
export const errorGroups = pgTable(
  'error_groups',
  {
    /** Hash of the four columns that follow. */
    key: text('key').primaryKey(),
    topic: text('topic').notNull(),
    subscriber: text('subscriber').notNull(),
    kind: text('kind').notNull(),
    /** Without the parts that differ between deliveries, and without personal data. */
    message: text('message').notNull(),
  },
  (table) => [index('error_groups_subscription').on(table.topic, table.subscriber)],
);

/**
 * Backfills: the older deliveries that a subscription is given later. While a row is open, the subscription's lanes deliver
 * nothing beyond their heads, so that newer events come after older ones.
 */
export const backfills = pgTable(
  'backfills',
  {
    id: uuid('id').primaryKey(),
    topic: text('topic').notNull(),
    subscriber: text('subscriber').notNull(),
    /** Creation time of the oldest event. */
    since: at('since').notNull(),
    requestedAt: at('requested_at').notNull(),
    requestedBy: text('requested_by').notNull(),
    reason: text('reason'),
    /** Deliveries to write in a minute; null for all at once. */
    perMinute: integer('per_minute'),
    /** Deliveries that were missing when it began. */
    matched: bigint('matched', { mode: 'number' }).notNull(),
    written: bigint('written', { mode: 'number' }).notNull().default(0),
    /** The event up to which all is written, in the order of ids; null where nothing is. */
    reached: uuid('reached'),
    /** When the next deliveries may be written. */
    nextAt: at('next_at').notNull(),
    /** When the first were written. Null while relays still hold lanes that they claimed before it was requested. */
    begunAt: at('begun_at'),
    /** Null while it is under way. */
    endedAt: at('ended_at'),
  },
  (table) => [
    uniqueIndex('backfills_open')
      .on(table.topic, table.subscriber)
      .where(sql`ended_at is null`),
    index('backfills_requested').on(table.requestedAt, table.id),
    check('backfills_pace', sql`per_minute > 0`),
    check('backfills_numbers', sql`matched >= 0 and written >= 0`),
  ],
);

/**
 * How many events were pruned, by topic and the day (UTC) of their creation. A backfill can't reach them. The row with an
 * empty topic has the day on which counting began.
 */
export const prunedEvents = pgTable(
  'pruned_events',
  {
    topic: text('topic').notNull(),
    day: date('day').notNull(),
    events: bigint('events', { mode: 'number' }).notNull(),
    /** In the row with an empty topic the event behind which pruning goes on; null: it begins anew. */
    reached: uuid('reached'),
  },
  (table) => [primaryKey({ columns: [table.topic, table.day] })],
);

/** Subscribers that do not answer. Their deliveries wait and use up no attempts; one at a time probes. */
export const outages = pgTable(
  'outages',
  {
    subscriber: text('subscriber').primaryKey(),
    /** Kind and message of the error that opened it. The message may hold personal data: mask it. */
    kind: text('kind').notNull(),
    message: text('message').notNull(),
    openedAt: at('opened_at').notNull(),
    /** Probes without an answer. */
    probes: integer('probes').notNull().default(0),
    /** While a delivery probes: since when. */
    probedAt: at('probed_at'),
    nextProbeAt: at('next_probe_at').notNull(),
  },
  () => [check('outages_probes', sql`probes >= 0`)],
);

/** When a relay last looked for work. The only row is there from the start. */
export const lastPass = pgTable('last_pass', {
  /** Null until a relay has run. */
  at: at('at'),
});

/** Subscribers whose deliveries wait because an operator paused them. */
export const pauses = pgTable(
  'pauses',
  {
    subscriber: text('subscriber').notNull(),
    /** Empty: all its topics. */
    topic: text('topic').notNull().default(''),
    pausedAt: at('paused_at').notNull(),
    pausedBy: text('paused_by').notNull(),
    reason: text('reason').notNull(),
  },
  (table) => [primaryKey({ columns: [table.subscriber, table.topic] })],
);

/**
 * The limits of subscribers, as whoever attaches them has set them. A claim that hands over lanes of one locks its row, and
 * waits for nobody: while another one has it, these lanes are left to that one.
 */
export const subscriberLimits = pgTable(
  'subscriber_limits',
  {
    subscriber: text('subscriber').primaryKey(),
    /** So many deliveries in so many milliseconds; null for any number. */
    rateCount: integer('rate_count'),
    rateMs: bigint('rate_ms', { mode: 'number' }),
    /** How many lanes may be leased at once; null for any number. */
    concurrency: integer('concurrency'),
    /** When all deliveries that were handed over would have been, at an even pace. */
    takenUntil: at('taken_until')
      .notNull()
      .default(sql`'-infinity'`),
  },
  () => [
    check(
      'subscriber_limits_given',
      sql`coalesce(rate_count, 1) > 0 and coalesce(concurrency, 1) > 0 and (rate_count is null) = (rate_ms is null)`,
    ),
  ],
);

/** Operators' actions other than replays: who, when, why. Triggers refuse updates, deletes and truncation. */
export const operatorActions = pgTable(
  'operator_actions',
  {
    id: uuid('id').primaryKey(),
    at: at('at').notNull(),
    operator: text('operator').notNull(),
    /** The name of the action, such as `retry`: any release may record actions that another does not know. */
    action: text('action').notNull(),
    topic: text('topic'),
    subscriber: text('subscriber'),
    deliveryId: text('delivery_id'),
    /** Of a reveal on an event's page. */
    eventId: uuid('event_id'),
    reason: text('reason'),
    incidentId: uuid('incident_id'),
    /** Of a paced replay that was stopped. */
    replayId: uuid('replay_id'),
    /** The log never changes, so it has this and not the subject. */
    erasureId: uuid('erasure_id'),
  },
  (table) => [
    index('operator_actions_at').on(table.at, table.id),
    index('operator_actions_incident')
      .on(table.incidentId)
      .where(sql`incident_id is not null`),
    index('operator_actions_replay')
      .on(table.replayId)
      .where(sql`replay_id is not null`),
    check('operator_actions_action', sql`action ~ '^[a-z][a-z_]{0,39}$'`),
  ],
);

/**
 * What goes wrong: one row for each subscription and group of errors, from its first failure until nothing is left of it; and
 * one for each outage of a subscriber.
 * `watchIncidents` writes it from what the lanes and `error_groups` say. At most one row of a subscription and error group is
 * open; one that comes back shortly after it closed is opened again, so that a flapping subscriber is one story. An older
 * release, which knows no groups, writes into all open rows of a kind what it finds for the kind; the next pass of this one
 * mends them.
 */
export const incidents = pgTable(
  'incidents',
  {
    id: uuid('id').primaryKey(),
    /** Empty for an outage: all topics of a subscriber that does not answer. */
    topic: text('topic').notNull(),
    subscriber: text('subscriber').notNull(),
    /** The error's code or class. */
    kind: text('kind').notNull(),
    /**
     * The key of the group of errors. Empty for an outage, and where there are none: unreadable payloads, the bus itself, chat
     * and budgets. So it is where an older release opened the row, until this one watches.
     */
    errorGroup: text('error_group').notNull().default(''),
    /** The last error, its personal data masked. */
    message: text('message').notNull(),
    /** `happening`: lanes are blocked now. `owed`: none is, and dead letters are left, or their replay is under way. */
    state: text('state').$type<'happening' | 'owed' | 'closed'>().notNull(),
    /** Counts the notable changes: opened, over, worse again, acknowledged, closed. */
    revision: integer('revision').notNull().default(1),
    /** The kind of the last notable change. */
    change: text('change').$type<'opened' | 'changed' | 'closed'>().notNull(),
    /** The first failure. */
    openedAt: at('opened_at').notNull(),
    /** The last notable change. */
    changedAt: at('changed_at').notNull(),
    closedAt: at('closed_at'),
    /** How often it has happened since `openedAt`. */
    times: integer('times').notNull().default(1),
    /** When it began for the last of these times; null for the first. */
    lastOpenedAt: at('last_opened_at'),
    /** Written by older releases only. */
    course: jsonb('course').notNull().default([]),
    blockedLanes: integer('blocked_lanes').notNull(),
    /** The part of them that a dead letter halts. */
    haltedLanes: integer('halted_lanes').notNull().default(0),
    /** Deliveries in these lanes. */
    waiting: bigint('waiting', { mode: 'number' }).notNull(),
    /** Dead letters. */
    owed: bigint('owed', { mode: 'number' }).notNull(),
    acknowledgedAt: at('acknowledged_at'),
    acknowledgedBy: text('acknowledged_by'),
    acknowledgedNote: text('acknowledged_note'),
  },
  (table) => [
    uniqueIndex('incidents_open')
      .on(table.topic, table.subscriber, table.kind, table.errorGroup)
      .where(sql`closed_at is null`),
    index('incidents_closed')
      .on(table.closedAt, table.id)
      .where(sql`closed_at is not null`),
    index('incidents_subscription').on(table.topic, table.subscriber, table.kind, table.closedAt),
    check(
      'incidents_state',
      sql`state in ('happening', 'owed', 'closed') and (state = 'closed') = (closed_at is not null)`,
    ),
    check('incidents_change', sql`change in ('opened', 'changed', 'closed')`),
    check('incidents_numbers', sql`revision > 0 and blocked_lanes >= 0 and waiting >= 0 and owed >= 0`),
    check('incidents_acknowledged', sql`(acknowledged_at is null) = (acknowledged_by is null)`),
  ],
);

/** Every accepted webhook. Never purged: for schemes without a signed time this is the only replay protection. */
export const webhookReceipts = pgTable(
  'webhook_receipts',
  {
    provider: text('provider').notNull(),
    eventId: text('event_id').notNull(),
    eventType: text('event_type'),
    bodySha256: text('body_sha256').notNull(),
    receivedAt: at('received_at').notNull(),
    duplicates: integer('duplicates').notNull().default(0),
    /** Duplicates with another body; not emitted. */
    bodyMismatches: integer('body_mismatches').notNull().default(0),
    lastDuplicateAt: at('last_duplicate_at'),
    /** When its event was found in the provider's API, before any webhook of it had come. */
    reconciledAt: at('reconciled_at'),
  },
  (table) => [
    primaryKey({ columns: [table.provider, table.eventId] }),
    check('webhook_receipts_event_id', sql`octet_length(event_id) between 1 and 255`),
  ],
);

/** How far each provider has been asked for the webhooks that never came (lib/edge/webhooks/reconcile/). */
export const reconciliations = pgTable(
  'reconciliations',
  {
    provider: text('provider').primaryKey(),
    begunAt: at('begun_at').notNull().defaultNow(),
    /** Counts the steps begun. Only the process that began the last one may record how it ended. */
    step: bigint('step', { mode: 'number' }).notNull().default(0),
    /** When the next step is due; while one is under way, when it is given up. */
    nextAt: at('next_at').notNull(),
    /** The time of the events that an unfinished walk over pages asks for. */
    walkFrom: at('walk_from'),
    walkUntil: at('walk_until'),
    /** The provider's id of the last event that the walk has come to. */
    cursor: text('cursor'),
    /** All events created before this have been asked for. Null for a provider that is asked intent by intent. */
    checkedUntil: at('checked_until'),
    succeededAt: at('succeeded_at'),
    failedAt: at('failed_at'),
    /** Why the last step failed: words of ours, nothing that the provider sent. */
    error: text('error'),
    /** Failed steps in a row. */
    failures: integer('failures').notNull().default(0),
    /** Events found since `begunAt` whose webhook had not come. */
    found: bigint('found', { mode: 'number' }).notNull().default(0),
    foundAt: at('found_at'),
  },
  () => [
    check(
      'reconciliations_walk',
      sql`(walk_from is null) = (walk_until is null) and (cursor is null or walk_from is not null)`,
    ),
    check('reconciliations_numbers', sql`failures >= 0 and found >= 0`),
  ],
);

/** Counts the refused requests to each webhook endpoint, by reason and day, and keeps the times of the newest. */
export const webhookRejections = pgTable(
  'webhook_rejections',
  {
    provider: text('provider').notNull(),
    reason: text('reason').notNull(),
    day: date('day').notNull(),
    count: bigint('count', { mode: 'number' }).notNull(),
    lastAt: at('last_at').notNull(),
    /** When the newest of them were refused, newest first: 20 at most. */
    recentAt: at('recent_at')
      .array()
      .notNull()
      .default(sql`'{}'`),
  },
  (table) => [primaryKey({ columns: [table.provider, table.reason, table.day] })],
);

/**
 * Counts what became of chat calls, mails of inquiries and days' budgets, by outcome and day, and keeps the times of the
 * newest. Functions that fail share no memory with the cron, which watches for incidents.
 */
export const edgeCounts = pgTable(
  'edge_counts',
  {
    /** `chat` or `inquiry`. */
    source: text('source').notNull(),
    /** A word of ours, such as `answered` or `provider_timeout`: never a visitor's. */
    outcome: text('outcome').notNull(),
    day: date('day').notNull(),
    count: bigint('count', { mode: 'number' }).notNull(),
    lastAt: at('last_at').notNull(),
    /** When the newest of them were counted, newest first: 20 at most. */
    recentAt: at('recent_at')
      .array()
      .notNull()
      .default(sql`'{}'`),
  },
  (table) => [primaryKey({ columns: [table.source, table.outcome, table.day] })],
);

/** Smoke tests, for a month. The id is also that of the test's event, if there is one. */
export const smokeTests = pgTable(
  'smoke_tests',
  {
    id: uuid('id').primaryKey(),
    startedAt: at('started_at').notNull(),
    startedBy: text('started_by').notNull(),
    /** Where earlier releases sent test webhooks to. */
    origin: text('origin'),
    /** Whom the event is for: who was attached where it was started, and not paused. Empty: there is no event. */
    subscribers: text('subscribers').array().notNull(),
    /** What became of those. */
    webhooks: jsonb('webhooks'),
    /** When what had not arrived was dismissed; see `endSmokeTests`. */
    endedAt: at('ended_at'),
  },
  (table) => [
    index('smoke_tests_open')
      .on(table.startedAt)
      .where(sql`ended_at is null`),
  ],
);

/** A subscription, and how many of its deliveries a replay put back. */
export interface Recipient {
  readonly topic: string;
  readonly subscriber: string;
  readonly count: number;
}
/**
 * Messages about incidents: a row for each revision of an incident that a channel has to tell. A row is not referenced by
 * its incident's deletion; `claimAlerts` deletes it then.
 */
export const alerts = pgTable(
  'alerts',
  {
    incidentId: uuid('incident_id').notNull(),
    /** The incident's, when the row was written. */
    revision: integer('revision').notNull(),
    channel: text('channel').$type<'mail' | 'slack' | 'teams' | 'pagerduty' | 'webhook'>().notNull(),
    /** When to try next. In the future while a process sends it. Null: sent, or given up. */
    dueAt: at('due_at'),
    attempts: smallint('attempts').notNull().default(0),
    attemptedAt: at('attempted_at'),
    sentAt: at('sent_at'),
    /** Why the last attempt failed: without an address, a text or a secret. */
    lastError: text('last_error'),
  },
  (table) => [
    primaryKey({ columns: [table.incidentId, table.revision, table.channel] }),
    index('alerts_due')
      .on(table.channel, table.dueAt)
      .where(sql`due_at is not null`),
    index('alerts_attempted').on(table.channel, table.attemptedAt),
    check('alerts_sent', sql`sent_at is null or due_at is null`),
  ],
);

/** Every replay: who, when, why and what. Triggers refuse updates, deletes and truncation. */
export const replays = pgTable(
  'replays',
  {
    id: uuid('id').primaryKey(),
    /** Null for deliveries chosen by id, which may be of several topics. */
    topic: text('topic'),
    /** Also the `replayed_at` of its deliveries; those of a paced replay have that of their step. */
    requestedAt: at('requested_at').notNull(),
    requestedBy: text('requested_by').notNull(),
    reason: text('reason'),
    /** The request as it was sent. */
    request: jsonb('request').$type<Record<string, unknown>>().notNull(),
    matched: integer('matched').notNull(),
    /** 0 for a paced replay: see `pacedReplays`. */
    replayed: integer('replayed').notNull(),
    /** Who got the deliveries, by topic and subscriber. Null for releases that did not record them. */
    recipients: jsonb('recipients').$type<readonly Recipient[]>(),
  },
  (table) => [index('replays_requested').on(table.requestedAt, table.id)],
);

/** How far each paced replay is. The records of replays never change. */
export const pacedReplays = pgTable(
  'paced_replays',
  {
    replayId: uuid('replay_id').primaryKey(),
    perMinute: integer('per_minute').notNull(),
    /** Deliveries that matched when it was requested. */
    planned: integer('planned').notNull(),
    putBack: integer('put_back').notNull().default(0),
    /** When the next step is due. */
    nextAt: at('next_at').notNull(),
    /** Null while it is under way. It may have put back fewer than were planned: an operator stopped it, or dealt with some otherwise. */
    endedAt: at('ended_at'),
  },
  (table) => [
    index('paced_replays_open')
      .on(table.nextAt)
      .where(sql`ended_at is null`),
    check('paced_replays_pace', sql`per_minute > 0`),
    check('paced_replays_numbers', sql`put_back >= 0`),
  ],
);

/** The steps of paced replays: the `replayed_at` of their deliveries. */
export const replaySteps = pgTable(
  'replay_steps',
  { replayId: uuid('replay_id').notNull(), at: at('at').notNull() },
  (table) => [primaryKey({ columns: [table.replayId, table.at] })],
);

/** When each replay put deliveries back: at its request, or at each of its steps. */
export const replayInstants = pgView('replay_instants', {
  replayId: uuid('replay_id').notNull(),
  at: at('at').notNull(),
}).existing();

// The index of identifiers: events by the ids and keys in them. Asynchronous (lib/components/identifiers/), so nothing on an event's
// way writes to it.

const bytes = customType<{ data: Buffer }>({ dataType: () => 'bytea' });

/** The ids of events by their `seq`, in blocks. The column is stored uncompressed, so that one id is read alone. */
export const eventBlocks = pgTable('event_blocks', {
  fromSeq: bigint('from_seq', { mode: 'number' }).primaryKey(),
  /** 16 bytes for each `seq` of the block; zeros where there is no event. */
  eventIds: bytes('event_ids').notNull(),
  /** When pruned events were last looked for, once it is past retention. */
  trimmedAt: at('trimmed_at'),
});

/** Where identifiers occur: by a hash of 32 bits, so that they can't be read here. */
export const identifiers = pgTable(
  'identifiers',
  {
    /** By the first bits of the hash. */
    bucket: smallint('bucket').notNull(),
    fromSeq: bigint('from_seq', { mode: 'number' }).notNull(),
    hashes: integer('hashes').array().notNull(),
    /** The ordinals of each hash end here, and begin where those of the hash before it end. */
    ends: integer('ends').array().notNull(),
    /** The `seq` of each event, from `fromSeq` on. */
    ordinals: smallint('ordinals').array().notNull(),
  },
  (table) => [primaryKey({ columns: [table.bucket, table.fromSeq] })],
);

/** The events that are in the index: from `fromSeq`, below `toSeq`. At most one row. */
export const indexedEvents = pgTable(
  'indexed_events',
  {
    isOnlyRow: boolean('is_only_row').primaryKey().default(true),
    fromSeq: bigint('from_seq', { mode: 'number' }).notNull(),
    toSeq: bigint('to_seq', { mode: 'number' }).notNull(),
    /** What the index takes for an identifier (lib/components/identifiers/index-events.ts). */
    rule: smallint('rule').notNull().default(1),
    /** No event with a lower `seq` becomes visible any more. */
    certainTo: bigint('certain_to', { mode: 'number' }).notNull().default(0),
    /** The same once none of `emitting` is open: the transactions that had emitted when it was noted, as `pg_locks` has them. */
    certainNext: bigint('certain_next', { mode: 'number' }).notNull().default(0),
    emitting: text('emitting')
      .array()
      .notNull()
      .default(sql`'{}'`),
  },
  () => [
    check('indexed_events_only_row', sql`is_only_row`),
    check('indexed_events_range', sql`0 <= from_seq and from_seq <= to_seq`),
  ],
);

/** The audit trail: one row per event that `audit` received. Triggers refuse updates, deletes and truncation. */
export const auditLog = pgTable('audit_log', {
  eventId: uuid('event_id').primaryKey(),
  topic: text('topic').notNull(),
  producer: text('producer').notNull(),
  occurredAt: at('occurred_at').notNull(),
  recordedAt: at('recorded_at').notNull().defaultNow(),
  correlationId: text('correlation_id'),
  causationId: text('causation_id'),
  /** The payload without the fields that the catalog marks as personal. */
  payload: jsonb('payload').$type<Record<string, unknown>>().notNull(),
});

/** What has been told of an intent, so that nothing is told twice. Events are pruned; this is not. */
export type PaymentPart = {
  /** The provider's id of the part: a charge, a refund, a dispute, a `pspReference`; empty for an only part. */
  readonly part: string;
  /** The amount that has been told. */
  readonly amountMinor: number;
} & (
  | { readonly state: 'reserved' }
  | { readonly state: 'captured' }
  /** What was released of a reservation. */
  | { readonly state: 'released'; readonly reason: string }
  /** It was told that the payment ended without a capture: what comes about its reservation is old. */
  | { readonly state: 'over' }
  /** Of a charge of Stripe's, with the totals that were reported, in the order of their arrival. */
  | { readonly state: 'refunded'; readonly totals?: readonly RefundTotal[] }
  /** A single refund at Stripe. */
  | { readonly state: 'refund'; readonly charge: string; readonly failed?: FailedRefund }
  | { readonly state: 'dispute'; readonly outcome?: DisputeOutcome; readonly decidedAt?: string | null }
);

/** All that was refunded of a charge, and when the provider said so. */
export interface RefundTotal {
  readonly amountMinor: number;
  readonly at: string | null;
  /** The provider's id of the event that reported it. */
  readonly event?: string;
}

/** When a refund failed, and how many totals of its charge had arrived before that news. */
export interface FailedRefund {
  readonly at: string | null;
  readonly totalsBefore: number;
}

export type DisputeOutcome = 'won' | 'lost' | 'withdrawn';

/** The amounts that providers were asked to charge. The payments component's own table. */
export const paymentIntents = pgTable(
  'payment_intents',
  {
    id: text('id').primaryKey(),
    bookingId: text('booking_id').notNull(),
    provider: text('provider').notNull(),
    amountMinor: bigint('amount_minor', { mode: 'number' }).notNull(),
    currency: text('currency').notNull(),
    state: text('state').$type<'created' | 'captured' | 'failed' | 'refunded'>().notNull().default('created'),
    parts: jsonb('parts').$type<readonly PaymentPart[]>().notNull().default([]),
    createdAt: at('created_at').notNull().defaultNow(),
    changedAt: at('changed_at').notNull().defaultNow(),
    /** When its provider is next asked about it (lib/edge/webhooks/reconcile/). Null: nothing more can happen to it. */
    askAt: at('ask_at').default(sql`now() + interval '15 minutes'`),
  },
  (table) => [
    index('payment_intents_asks')
      .on(table.provider, table.state, table.askAt)
      .where(sql`ask_at is not null and state <> 'failed'`),
    check('payment_intents_amount', sql`amount_minor >= 0`),
    check('payment_intents_state', sql`state in ('created', 'captured', 'failed', 'refunded')`),
  ],
);

/** What a provider states of an intent: one fact of one webhook, without a comparison with what is known. */
export type PaymentStatement = {
  /** The provider's time of the fact, ISO 8601 in UTC; null where it gives none. */
  readonly at: string | null;
} &
  /** All that is or was reserved so far. */
  (
    | ({ readonly kind: 'reserved'; readonly captureUntil?: string } & Money)
    | ({ readonly kind: 'captured' } & MoneyOfPart)
    /** `mostMinor` is the most that it may be, by the webhook itself. */
    | ({ readonly kind: 'refunded'; readonly mostMinor?: number } & MoneyOfPart)
    /** A single refund, whose amount is part of its charge's total. */
    | ({
        readonly kind: 'refund';
        readonly part: string;
        readonly charge: string;
        /** Why it failed or was cancelled; absent for one that did not. */
        readonly failure?: string;
      } & Money)
    /** An attempt to pay. */
    | { readonly kind: 'failed'; readonly reason: string }
    /** Nothing more will be captured. */
    | {
        readonly kind: 'ended';
        readonly reason: string;
        /** Whether an amount was reserved; null where the webhook does not say. */
        readonly wasReserved: boolean | null;
        /** What was released of the reservation; absent for all of it. */
        readonly amountMinor?: number;
        readonly currency?: string;
      }
    | ({
        readonly kind: 'dispute';
        readonly part: string;
        readonly reason: string;
        readonly evidenceUntil?: string;
        readonly outcome?: DisputeOutcome;
      } & Money)
  );

interface Money {
  readonly amountMinor: number;
  readonly currency: string;
}

interface MoneyOfPart extends Money {
  readonly part: string;
  /** Whether `amountMinor` is the part's total so far. False: the part is a single amount that never changes. */
  readonly isTotal: boolean;
}

/** What release 1.1 keeps of a webhook that it set aside, and takes up. */
export type PaymentOutcome = { readonly intentId: string } & (
  | {
      readonly state: 'captured' | 'refunded';
      readonly amountMinor: number;
      readonly currency: string;
      readonly part: string;
      readonly isCumulative: boolean;
    }
  | { readonly state: 'failed'; readonly reason: string }
);

/** Why a webhook is set aside. */
/** `unread`: a thin event, which names an object that the provider is to be asked for. */
export type SetAsideReason = 'no_intent' | 'not_plausible' | 'unread';

/**
 * Webhooks that wait: for their intent to be recorded, for what makes them plausible, or for the object that they name. A row is deleted when it is taken
 * up; a row that found no intent in time is marked and stays.
 */
export const webhooksSetAside = pgTable(
  'webhooks_set_aside',
  {
    /** The webhook's event, so that a replay sets it aside only once. */
    eventId: uuid('event_id').primaryKey(),
    provider: text('provider').$type<'cardpayments' | 'walletpayments'>().notNull(),
    /** Of an `unread` one the object's path in the provider's API, so that no intent takes it up. */
    intentId: text('intent_id').notNull(),
    providerEventId: text('provider_event_id').notNull(),
    correlationId: text('correlation_id').notNull(),
    /** With `seq`, the event's place in the order. */
    createdAt: at('created_at').notNull(),
    seq: bigint('seq', { mode: 'number' }).notNull(),
    /** Every other reason than `no_intent` is an incident. */
    reason: text('reason').$type<SetAsideReason>().notNull().default('no_intent'),
    /** What is not plausible, or why it is unread, in words without personal data. */
    detail: text('detail'),
    /** What the webhook states, without the rest of its body. Null in a row of release 1.1, which has `outcome` only. */
    statements: jsonb('statements').$type<readonly PaymentStatement[]>(),
    outcome: jsonb('outcome').$type<PaymentOutcome>().notNull(),
    setAsideAt: at('set_aside_at').notNull(),
    /** When `payment.webhook.unclaimed` was emitted for it. */
    unclaimedAt: at('unclaimed_at'),
  },
  (table) => [
    index('webhooks_set_aside_intent').on(table.provider, table.intentId),
    index('webhooks_set_aside_waiting')
      .on(table.setAsideAt)
      .where(sql`unclaimed_at is null`),
    index('webhooks_set_aside_incidents')
      .on(table.provider, table.reason)
      .where(sql`reason <> 'no_intent'`),
  ],
);

/** The people who have signed in, by the provider's subject. The identity component's own table. */
export const identitySubjects = pgTable('identity_subjects', {
  subject: text('subject').primaryKey(),
  /** The event of the subject's first callback, so that a replay of it counts as a sign-up again. */
  firstEventId: uuid('first_event_id').notNull(),
  firstSeenAt: at('first_seen_at').notNull().defaultNow(),
});

/** One row per event that `notifications` received: the recipient and the subject. */
export const notifications = pgTable(
  'notifications',
  {
    eventId: uuid('event_id').primaryKey(),
    topic: text('topic').notNull(),
    /** The address in the payload, if there is one. Pruned after a month; the row stays. */
    email: text('email'),
    subject: text('subject').notNull(),
    recordedAt: at('recorded_at').notNull().defaultNow(),
    /** Committed before the mail is sent. Without `mailedAt` nobody knows whether it was. */
    mailBegunAt: at('mail_begun_at'),
    /** Null without an address, or when e-mail is not configured. */
    mailedAt: at('mailed_at'),
  },
  (table) => [
    index('notifications_addressed')
      .on(table.recordedAt)
      .where(sql`${table.email} is not null`),
  ],
);

/** A name of the person whose data an erasure overwrites. */
export interface ErasedName {
  readonly text: string;
  /**
   * `asked`: by the operator. `linked`: found beside one of the others, and as personal as an e-mail address. `shared`: the
   * same, but it also names someone else, so it is not looked for. `beside`: an id found beside one that was asked for; it
   * is not looked for, because ids may be of the whole family.
   */
  readonly origin: 'asked' | 'linked' | 'shared' | 'beside';
  /** Whether it stands in a field that is personal data. */
  readonly isPersonal: boolean;
}

/**
 * Erasures of a person's data. They go on in steps (lib/components/erasures/erase.ts), in these states:
 *
 * - `waiting` for the producers whose transactions were open when it was requested;
 * - `gathering` the person's other names from the events that name them, until there is none more;
 * - `finding` the events that any of the names is in;
 * - `erasing` them and their deliveries;
 * - `settling`: waiting for the relays that hold lanes which they claimed before, and may still settle with an error that
 *   quotes the person;
 * - `checking` the deliveries again for what these settled, and the texts of incidents and error groups;
 * - `ended`.
 */
export const erasures = pgTable(
  'erasures',
  {
    id: uuid('id').primaryKey(),
    /** Events created later are not erased. */
    requestedAt: at('requested_at').notNull(),
    requestedBy: text('requested_by').notNull(),
    reason: text('reason').notNull(),
    /** As they were asked for; the personal ones are masked at the end. */
    subjects: text('subjects').array().notNull(),
    /** Whether to look for the subjects alone, and not for the person's other names. */
    isExact: boolean('is_exact').notNull(),
    /** What it looks for. Null at the end. */
    names: jsonb('names').$type<readonly ErasedName[]>(),
    /** Those that were known when `gathering` began to read the events. Null at the end. */
    namesBefore: jsonb('names_before').$type<readonly ErasedName[]>(),
    state: text('state')
      .$type<'waiting' | 'gathering' | 'finding' | 'erasing' | 'settling' | 'checking' | 'ended'>()
      .notNull()
      .default('waiting'),
    /** The producers' transactions that were open when it was requested, as `pg_locks` has them. */
    producers: text('producers').array().notNull(),
    /** The leases of lanes at the end of `erasing`. */
    leases: uuid('leases')
      .array()
      .notNull()
      .default(sql`'{}'`),
    /** The newest event when the search began. */
    lastId: uuid('last_id'),
    /** How far the present state has come. */
    reachedId: uuid('reached_id').notNull().default('00000000-0000-0000-0000-000000000000'),
    /** Events that the present state has read. */
    searched: bigint('searched', { mode: 'number' }).notNull().default(0),
    /** Events that name the person. */
    found: bigint('found', { mode: 'number' }).notNull().default(0),
    /** Events whose payload had personal data. */
    events: bigint('events', { mode: 'number' }).notNull().default(0),
    /** Deliveries whose attempts had errors, answers or reasons. */
    deliveries: bigint('deliveries', { mode: 'number' }).notNull().default(0),
    notifications: bigint('notifications', { mode: 'number' }).notNull().default(0),
    /** Other texts that held the person: of error groups, incidents and the like. */
    texts: bigint('texts', { mode: 'number' }).notNull().default(0),
    /** Events whose ordering key holds the person and had to stay, because deliveries depend on it. */
    keysKept: bigint('keys_kept', { mode: 'number' }).notNull().default(0),
    /** When the next step may be taken. */
    nextAt: at('next_at').notNull(),
    endedAt: at('ended_at'),
  },
  (table) => [
    index('erasures_requested').on(table.requestedAt, table.id),
    index('erasures_open')
      .on(table.nextAt)
      .where(sql`ended_at is null`),
    check(
      'erasures_state',
      sql`state in ('waiting', 'gathering', 'finding', 'erasing', 'settling', 'checking', 'ended')
        and (state = 'ended') = (ended_at is not null) and (ended_at is null or names is null and names_before is null)`,
    ),
  ],
);

/** The events that an erasure under way has found. Deleted at its end. */
export const erasedEvents = pgTable(
  'erased_events',
  {
    erasureId: uuid('erasure_id').notNull(),
    eventId: uuid('event_id').notNull(),
    /** The personal data that it had. */
    texts: text('texts')
      .array()
      .notNull()
      .default(sql`'{}'`),
  },
  (table) => [primaryKey({ columns: [table.erasureId, table.eventId] })],
);

/**
 * Tokens behind sign-in links that nobody has used, sign-ins under way, and sessions of people whom the directory has
 * signed in. The key to each is the code in its link or in the browser's cookie, of which this has only a hash: who reads
 * the table can sign in with none of them.
 */
export const signInCodes = pgTable('sign_in_codes', {
  hash: bytes('hash').primaryKey(),
  sealed: bytes('sealed').notNull(),
  expiresAt: at('expires_at').notNull(),
});

/**
 * What the directory calls the operators who signed in with it, by the ids that the log has of them. The log can't be
 * erased and has no names; these can.
 */
export const operatorNames = pgTable(
  'operator_names',
  {
    subject: text('subject').primaryKey(),
    name: text('name').notNull(),
    /** At the last sign-in. */
    seenAt: at('seen_at').notNull(),
  },
  ({ name }) => [check('operator_names_name', sql`char_length(${name}) between 1 and 60`)],
);

/** The events that the stand-in of each unattached subscriber received, in the embedded mode. */
export const standInEvents = pgTable(
  'stand_in_events',
  {
    eventId: uuid('event_id').notNull(),
    subscriber: text('subscriber').notNull(),
    topic: text('topic').notNull(),
    recordedAt: at('recorded_at').notNull().defaultNow(),
  },
  (table) => [primaryKey({ columns: [table.eventId, table.subscriber] })],
);
