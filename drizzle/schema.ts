import { sql } from 'drizzle-orm';
import {
  bigint,
  check,
  date,
  index,
  integer,
  jsonb,
  pgEnum,
  pgSequence,
  pgTable,
  primaryKey,
  smallint,
  text,
  timestamp,
  uniqueIndex,
  uuid,
} from 'drizzle-orm/pg-core';

/** Ordered from best to worst, so that `max()` of the states of an event's deliveries is the event's. */
export const stateEnum = pgEnum('delivery_state', ['delivered', 'pending', 'failing', 'dead_lettered']);

const at = (name: string) => timestamp(name, { withTimezone: true });

/**
 * The outbox: one row per fact. Written by `emit` in the producer's transaction; only the three counters change later.
 *
 * No index holds a column that a settlement changes, so that settling is a HOT update (docs/design.md).
 */
export const events = pgTable(
  'events',
  {
    /** UUIDv7. */
    id: uuid('id').primaryKey(),
    topic: text('topic').notNull(),
    payload: jsonb('payload').$type<Record<string, unknown>>().notNull(),
    /** The payload schema's version in the catalog at the time of the insert. */
    version: smallint('version').notNull(),
    /** The database's clock at the insert, not the transaction's start. */
    createdAt: at('created_at').notNull(),
    /** Breaks ties of `createdAt`. */
    seq: bigint('seq', { mode: 'number' }).notNull().generatedAlwaysAsIdentity(),
    /** Empty where the lane is the whole topic. */
    orderingKey: text('ordering_key').notNull().default(''),
    producer: text('producer').notNull(),
    dedupeKey: text('dedupe_key'),
    correlationId: text('correlation_id'),
    causationId: text('causation_id'),
    traceparent: text('traceparent'),
    /** Whom the event is for, by the catalog of the release that emitted it. Null: emitted before this was recorded. */
    subscribers: text('subscribers').array(),
    /** Deliveries neither delivered nor dead-lettered; until fan-out, the number of `subscribers`. */
    open: smallint('open').notNull(),
    /** Deliveries whose last attempt failed and that will be tried again. Part of `open`. */
    failing: smallint('failing').notNull().default(0),
    deadLettered: smallint('dead_lettered').notNull().default(0),
    /** The worst state of the event's deliveries; generated, so it can't drift from the counters. */
    state: stateEnum('state')
      .notNull()
      .generatedAlwaysAs(
        sql`case when dead_lettered > 0 then 'dead_lettered'::delivery_state when failing > 0 then 'failing'::delivery_state when open > 0 then 'pending'::delivery_state else 'delivered'::delivery_state end`,
      ),
  },
  (table) => [
    uniqueIndex('events_dedupe')
      .on(table.topic, table.dedupeKey)
      .where(sql`dedupe_key is not null`),
    check('events_counters', sql`open >= 0 and failing between 0 and open and dead_lettered >= 0`),
  ],
);

/** Marks the events that have no deliveries yet: `emit` writes a row, fan-out deletes it. */
export const awaitingFanOut = pgTable(
  'awaiting_fan_out',
  {
    topic: text('topic').notNull(),
    createdAt: at('created_at').notNull(),
    seq: bigint('seq', { mode: 'number' }).notNull(),
    eventId: uuid('event_id').notNull(),
    orderingKey: text('ordering_key').notNull(),
    open: smallint('open').notNull(),
    payloadBytes: integer('payload_bytes').notNull(),
    /** As the event has them, so that fan-out need not read it. Null: written by a release that does not name them. */
    subscribers: text('subscribers').array(),
  },
  (table) => [
    primaryKey({ columns: [table.topic, table.createdAt, table.seq] }),
    index('awaiting_fan_out_unaddressed')
      .on(table.topic, table.createdAt)
      .where(sql`subscribers is null`),
  ],
);

/** Numbers deliveries in the order of fan-out; drawn under the fan-out lock, so that order is also commit order. */
export const deliveryPositions = pgSequence('delivery_positions', { cache: 1 });

/** How many lanes the ordering keys of a subscription share. `slot` counts them from 1. */
export const SLOTS = 8;

/**
 * Where the deliveries of a subscription have got to, and which relay holds them. Of four kinds:
 *
 * - the lane of all events without an ordering key: `orderingKey` is empty, `slot` null;
 * - a shared lane, one of 8 for all ordering keys: `slot` says which, `heldKey` is empty. It is handed over key by key,
 *   each in order, and goes on when one of them has to wait, since that key then has a lane of its own;
 * - the lane of a key in trouble: `heldKey` names it, `homeId` is its shared lane, in which its deliveries stay. It goes
 *   when nothing of the key is left to deliver;
 * - the lane of a key by release 0.2: `orderingKey` names it, `slot` is null. It takes what comes for its key as long as
 *   deliveries name it, that is until the last of them is pruned.
 *
 * Everything at or before `head` is settled, except what a replay has put back (it moves `head` back too).
 */
export const lanes = pgTable(
  'lanes',
  {
    id: bigint('id', { mode: 'number' }).primaryKey().generatedAlwaysAsIdentity(),
    topic: text('topic').notNull(),
    subscriber: text('subscriber').notNull(),
    /** Null exactly where `slot` is not. */
    orderingKey: text('ordering_key'),
    slot: smallint('slot'),
    heldKey: text('held_key').notNull().default(''),
    homeId: bigint('home_id', { mode: 'number' }),
    /** Position up to which all deliveries are settled. */
    head: bigint('head', { mode: 'number' }).notNull().default(0),
    /** Position of the newest delivery. */
    tail: bigint('tail', { mode: 'number' }).notNull(),
    /** Up to this position deliveries are claimed one by one: a relay died among them. */
    carefulTo: bigint('careful_to', { mode: 'number' }).notNull().default(0),
    /** The payload version that the head needs a handler for, when a relay found it newer than its own catalog's. */
    waitsForVersion: smallint('waits_for_version'),
    /** What release 0.2 goes by in place of `waitsForVersion`. It knows no slots, so that theirs is out of its reach. */
    neededVersion: smallint('needed_version'),
    /** The newest payload version that the relay which took the lease can read: what it died of is no newer. */
    heldVersion: smallint('held_version'),
    /** When a relay should next look here: now, at the head's retry, or when the lease runs out. Null: nothing to do. */
    dueAt: at('due_at'),
    /** Set while a relay holds the lane; a token that has run out (`dueAt` in the past) means that the relay died. */
    leaseToken: uuid('lease_token'),
  },
  (table) => [
    uniqueIndex('lanes_subscription_key').on(table.topic, table.subscriber, table.orderingKey),
    uniqueIndex('lanes_slots')
      .on(table.topic, table.subscriber, table.slot, table.heldKey)
      .where(sql`slot is not null`),
    index('lanes_in_trouble')
      .on(table.homeId)
      .where(sql`home_id is not null`),
    index('lanes_due')
      .on(table.topic, table.subscriber, table.dueAt)
      .where(sql`due_at is not null`),
    // Whether anything is due at all: mostly nothing is, and then no subscription need be asked for.
    index('lanes_due_at')
      .on(table.dueAt)
      .where(sql`due_at is not null`),
    check('lanes_lease', sql`lease_token is null or due_at is not null`),
    check('lanes_head', sql`head <= tail`),
    check(
      'lanes_kind',
      sql`(slot is null) = (ordering_key is not null) and (home_id is null) = (held_key = '')`,
    ),
    check('lanes_slots_of_this_release', sql`slot is null or needed_version is not distinct from 32767`),
  ],
);

/** One attempt that did not end as the delivery's present `deliveredAt`. */
export interface PastAttempt {
  /** 0: an operator's doing. */
  readonly attempt: number;
  /** ISO 8601, UTC. */
  readonly at: string;
  readonly durationMs: number;
  readonly outcome: 'failed' | 'delivered' | 'waited' | 'replayed' | 'hurried' | 'skipped';
  readonly kind?: string;
  readonly message?: string;
  /** Of an operator's doing: who, why, and as part of which replay. */
  readonly by?: string;
  readonly reason?: string | null;
  readonly replayId?: string;
}

/** One event on its way to one subscriber. The settled attempt stands in columns; earlier ones in `attemptLog`. */
export const deliveries = pgTable(
  'deliveries',
  {
    laneId: bigint('lane_id', { mode: 'number' }).notNull(),
    /** Place in the lane; given by fan-out in (createdAt, seq) order, never changed. */
    position: bigint('position', { mode: 'number' }).notNull(),
    eventId: uuid('event_id').notNull(),
    /** The ordering key of a delivery in a shared lane; null in all others. */
    laneKey: text('lane_key'),
    /** Of the event's payload as text, so that a claim can stop before it holds too much. */
    payloadBytes: integer('payload_bytes').notNull(),
    state: stateEnum('state').notNull().default('pending'),
    /** Attempts begun since fan-out or the last replay. */
    attempts: smallint('attempts').notNull().default(0),
    /** Start of the last attempt. */
    attemptedAt: at('attempted_at'),
    durationMs: integer('duration_ms'),
    nextAttemptAt: at('next_attempt_at'),
    deliveredAt: at('delivered_at'),
    deadLetteredAt: at('dead_lettered_at'),
    replayedAt: at('replayed_at'),
    replays: smallint('replays').notNull().default(0),
    /** Of a dead letter: the key of the group of errors that its last attempt belongs to. */
    errorGroup: text('error_group'),
    attemptLog: jsonb('attempt_log').$type<readonly PastAttempt[]>(),
  },
  (table) => [
    primaryKey({ columns: [table.laneId, table.position] }),
    // How the lane of a key in trouble finds its deliveries among those of all keys.
    index('deliveries_keys')
      .on(table.laneId, table.laneKey, table.position)
      .where(sql`lane_key is not null`),
    // Ids are UUIDv7 and rows are inserted in event order: block ranges find an event's deliveries at next to no cost.
    index('deliveries_event')
      .using('brin', sql`${table.eventId} uuid_minmax_multi_ops`)
      .with({ pages_per_range: 64, autosummarize: true }),
    // Operators page through dead letters by these: all of them, or those of one group.
    index('deliveries_dead_letters')
      .on(table.deadLetteredAt, table.laneId, table.position)
      .where(sql`dead_lettered_at is not null`),
    index('deliveries_errors')
      .on(table.errorGroup, table.deadLetteredAt, table.laneId, table.position)
      .where(sql`error_group is not null`),
    index('deliveries_replays')
      .on(table.replayedAt)
      .where(sql`replayed_at is not null`),
    // One, and not one for each column: it is evaluated at each of the two writes that a delivery costs.
    check(
      'deliveries_state',
      sql`case state
        when 'delivered' then delivered_at is not null and dead_lettered_at is null and error_group is null
        when 'dead_lettered' then dead_lettered_at is not null and error_group is not null and delivered_at is null
        else delivered_at is null and dead_lettered_at is null and error_group is null
          and (state = 'pending' or (attempts > 0 and next_attempt_at is not null))
      end`,
    ),
  ],
);

/**
 * How much is where: what all rows of a topic and subscriber add up to. Changed by every statement that changes a
 * state, so that nobody counts millions of rows.
 *
 * An empty `subscriber` counts the topic's events, by the worst state of their deliveries; the others count
 * deliveries. Each backend adds to a row of its own (`shard`), so that nobody waits for another; one row alone may be
 * below zero. Events that have no deliveries yet are in `awaiting_fan_out` and not here.
 */
export const backlog = pgTable(
  'backlog',
  {
    topic: text('topic').notNull(),
    subscriber: text('subscriber').notNull(),
    shard: smallint('shard').notNull(),
    pending: bigint('pending', { mode: 'number' }).notNull(),
    failing: bigint('failing', { mode: 'number' }).notNull(),
    deadLettered: bigint('dead_lettered', { mode: 'number' }).notNull(),
    lastDeliveredAt: at('last_delivered_at'),
    lastFailedAt: at('last_failed_at'),
    /** How often it has happened since these columns were added. Never less: a replay or a prune takes nothing back. */
    deliveredTotal: bigint('delivered_total', { mode: 'number' }).notNull().default(0),
    /** Attempts, also the last one of a dead letter. */
    failedTotal: bigint('failed_total', { mode: 'number' }).notNull().default(0),
    deadLetteredTotal: bigint('dead_lettered_total', { mode: 'number' }).notNull().default(0),
  },
  (table) => [primaryKey({ columns: [table.topic, table.subscriber, table.shard] })],
);

/** Deliveries of each topic by the hour, sharded as `backlog` is. */
export const throughput = pgTable(
  'throughput',
  {
    hour: at('hour').notNull(),
    topic: text('topic').notNull(),
    shard: smallint('shard').notNull(),
    delivered: bigint('delivered', { mode: 'number' }).notNull(),
    /** Those of `delivered` that needed one attempt and no replay. */
    firstAttempt: bigint('first_attempt', { mode: 'number' }).notNull(),
    deadLettered: bigint('dead_lettered', { mode: 'number' }).notNull(),
  },
  (table) => [primaryKey({ columns: [table.hour, table.topic, table.shard] })],
);

/** One row for each way in which deliveries of a subscription ended as dead letters. */
export const errorGroups = pgTable(
  'error_groups',
  {
    /** Hash of the four that follow. */
    key: text('key').primaryKey(),
    topic: text('topic').notNull(),
    subscriber: text('subscriber').notNull(),
    kind: text('kind').notNull(),
    /** Without what differs from one delivery to the next, and without personal data. */
    message: text('message').notNull(),
    /** How many are dead letters now. */
    deadLettered: bigint('dead_lettered', { mode: 'number' }).notNull(),
  },
  (table) => [index('error_groups_subscription').on(table.topic, table.subscriber)],
);

/** When a relay last looked for work; the one row is there from the start. */
export const lastPass = pgTable('last_pass', {
  /** Null until a relay has run. */
  at: at('at'),
});

/** Subscribers whose deliveries wait because an operator said so. */
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

/** What operators did besides replays: who, when, why. Triggers refuse updates, deletes and truncation. */
export const operatorActions = pgTable(
  'operator_actions',
  {
    id: uuid('id').primaryKey(),
    at: at('at').notNull(),
    operator: text('operator').notNull(),
    action: text('action').$type<'retry' | 'skip' | 'pause' | 'resume' | 'reveal'>().notNull(),
    topic: text('topic'),
    subscriber: text('subscriber'),
    deliveryId: text('delivery_id'),
    reason: text('reason'),
  },
  (table) => [
    index('operator_actions_at').on(table.at, table.id),
    check('operator_actions_action', sql`action in ('retry', 'skip', 'pause', 'resume', 'reveal')`),
  ],
);

/** Every webhook that was ever accepted. Never purged: for schemes without a signed time it is the only replay protection. */
export const webhookReceipts = pgTable(
  'webhook_receipts',
  {
    provider: text('provider').notNull(),
    eventId: text('event_id').notNull(),
    eventType: text('event_type'),
    bodySha256: text('body_sha256').notNull(),
    receivedAt: at('received_at').notNull(),
    duplicates: integer('duplicates').notNull().default(0),
    /** Duplicates that came with another body; not emitted. */
    bodyMismatches: integer('body_mismatches').notNull().default(0),
    lastDuplicateAt: at('last_duplicate_at'),
  },
  (table) => [
    primaryKey({ columns: [table.provider, table.eventId] }),
    check('webhook_receipts_event_id', sql`octet_length(event_id) between 1 and 255`),
  ],
);

/** How many requests to a webhook endpoint were refused, and why. */
export const webhookRejections = pgTable(
  'webhook_rejections',
  {
    provider: text('provider').notNull(),
    reason: text('reason').notNull(),
    day: date('day').notNull(),
    count: bigint('count', { mode: 'number' }).notNull(),
    lastAt: at('last_at').notNull(),
  },
  (table) => [primaryKey({ columns: [table.provider, table.reason, table.day] })],
);

/** Every replay: who, when, why, what. Triggers refuse updates, deletes and truncation. */
export const replays = pgTable(
  'replays',
  {
    id: uuid('id').primaryKey(),
    /** Null: deliveries of several topics, chosen one by one. */
    topic: text('topic'),
    /** What its deliveries have as their `replayed_at`. */
    requestedAt: at('requested_at').notNull(),
    requestedBy: text('requested_by').notNull(),
    reason: text('reason'),
    /** What was asked for, as asked. */
    request: jsonb('request').$type<Record<string, unknown>>().notNull(),
    matched: integer('matched').notNull(),
    replayed: integer('replayed').notNull(),
  },
  (table) => [index('replays_requested').on(table.requestedAt, table.id)],
);

/** The audit trail, one row per event that `audit` was handed. Triggers refuse updates, deletes and truncation. */
export const auditLog = pgTable('audit_log', {
  eventId: uuid('event_id').primaryKey(),
  topic: text('topic').notNull(),
  producer: text('producer').notNull(),
  occurredAt: at('occurred_at').notNull(),
  recordedAt: at('recorded_at').notNull().defaultNow(),
  correlationId: text('correlation_id'),
  causationId: text('causation_id'),
  /** The payload without the fields that the catalog marks as personal data. */
  payload: jsonb('payload').$type<Record<string, unknown>>().notNull(),
});

/** An amount of an intent that was captured or refunded, as the provider tells it from others. */
export interface PaymentPart {
  readonly state: 'captured' | 'refunded';
  /** Stripe's charge of a refund, Vipps MobilePay's `pspReference`; empty where the intent has no more than one. */
  readonly part: string;
  /** What has been emitted of it. */
  readonly amountMinor: number;
}

/** The payments component's own record of what it asked a provider to charge. */
export const paymentIntents = pgTable(
  'payment_intents',
  {
    id: text('id').primaryKey(),
    bookingId: text('booking_id').notNull(),
    provider: text('provider').notNull(),
    amountMinor: bigint('amount_minor', { mode: 'number' }).notNull(),
    currency: text('currency').notNull(),
    state: text('state').$type<'created' | 'captured' | 'failed' | 'refunded'>().notNull().default('created'),
    /** What has been emitted, so that none of it is emitted again; events are pruned, and this is not. */
    parts: jsonb('parts').$type<readonly PaymentPart[]>().notNull().default([]),
    createdAt: at('created_at').notNull().defaultNow(),
    changedAt: at('changed_at').notNull().defaultNow(),
  },
  () => [
    check('payment_intents_amount', sql`amount_minor >= 0`),
    check('payment_intents_state', sql`state in ('created', 'captured', 'failed', 'refunded')`),
  ],
);

/** What a payment provider says has happened to an intent. */
export type PaymentOutcome = { readonly intentId: string } & (
  | {
      readonly state: 'captured' | 'refunded';
      readonly amountMinor: number;
      readonly currency: string;
      /** See `PaymentPart`. */
      readonly part: string;
      /** Whether `amountMinor` is all of the part until now, or the whole of a part that never changes. */
      readonly isCumulative: boolean;
      /** What a cumulative amount was before, where the provider says so. */
      readonly beforeMinor?: number | undefined;
    }
  | { readonly state: 'failed'; readonly reason: string }
);

/**
 * Webhooks of intents that nobody here has recorded, which wait for that. A row goes when its intent is recorded; one
 * that found none in time is marked, and stays.
 */
export const webhooksSetAside = pgTable(
  'webhooks_set_aside',
  {
    /** The webhook's event: one that is replayed is set aside once. */
    eventId: uuid('event_id').primaryKey(),
    provider: text('provider').$type<'cardpayments' | 'walletpayments'>().notNull(),
    intentId: text('intent_id').notNull(),
    providerEventId: text('provider_event_id').notNull(),
    correlationId: text('correlation_id').notNull(),
    /** The event's place among others. */
    createdAt: at('created_at').notNull(),
    seq: bigint('seq', { mode: 'number' }).notNull(),
    /** What the webhook says, without the rest of its body. */
    outcome: jsonb('outcome').$type<PaymentOutcome>().notNull(),
    setAsideAt: at('set_aside_at').notNull(),
    /** When it was reported that no intent was found. */
    unclaimedAt: at('unclaimed_at'),
  },
  (table) => [
    index('webhooks_set_aside_intent').on(table.provider, table.intentId),
    index('webhooks_set_aside_waiting')
      .on(table.setAsideAt)
      .where(sql`unclaimed_at is null`),
  ],
);

/** The identity component's list of the people that have signed in, by the provider's subject. */
export const identitySubjects = pgTable('identity_subjects', {
  subject: text('subject').primaryKey(),
  /** The callback that it was first seen in, so that replaying that callback is a first sight again. */
  firstEventId: uuid('first_event_id').notNull(),
  firstSeenAt: at('first_seen_at').notNull().defaultNow(),
});

/** Whom to tell what; one row per event that `notifications` was handed. */
export const notifications = pgTable(
  'notifications',
  {
    eventId: uuid('event_id').primaryKey(),
    topic: text('topic').notNull(),
    /** The address that the payload names, if it names one. Pruned after a month; the row stays. */
    email: text('email'),
    subject: text('subject').notNull(),
    recordedAt: at('recorded_at').notNull().defaultNow(),
    /** Null where no address is named, or e-mail is not configured. */
    mailedAt: at('mailed_at'),
  },
  (table) => [
    index('notifications_addressed')
      .on(table.recordedAt)
      .where(sql`${table.email} is not null`),
  ],
);

/** What the stand-in of each unattached subscriber was handed, in the embedded mode. */
export const journal = pgTable(
  'journal',
  {
    eventId: uuid('event_id').notNull(),
    subscriber: text('subscriber').notNull(),
    topic: text('topic').notNull(),
    recordedAt: at('recorded_at').notNull().defaultNow(),
  },
  (table) => [primaryKey({ columns: [table.eventId, table.subscriber] })],
);
