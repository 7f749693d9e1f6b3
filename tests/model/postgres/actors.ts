import { sql } from 'drizzle-orm';
import type pg from 'pg';

import { opened } from '../../chaos/produce.ts';
import type { ClaimedLane } from '../../../lib/bus/deliveries/claim.ts';
import type { LaneOutcome } from '../../../lib/bus/deliveries/settle.ts';
import { subscriptionsOf } from '../../../lib/bus/deliveries/subscription.ts';
import { takeTurn } from '../../../lib/bus/deliveries/turn.ts';
import type { Turn } from '../../../lib/bus/deliveries/turn.ts';
import { emit } from '../../../lib/bus/outbox/emit.ts';
import { LaneRun } from '../../../lib/bus/relay/lane-run.ts';
import { PermanentError } from '../../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../../lib/bus/subscribers/subscriber.ts';
import type { AttachedSubscriber, BusEvent } from '../../../lib/bus/subscribers/subscriber.ts';
import { connect } from '../../../lib/platform/db/connect.ts';
import type { Connection, Database, Transaction } from '../../../lib/platform/db/connect.ts';
import { MINUTE, sleep } from '../../../lib/platform/time.ts';
import { payment } from '../../support/bus.ts';
import { options } from '../../support/lane.ts';
import type { Scope } from '../world.ts';
import { keyOf, TOPIC } from './stage.ts';
import type { Stage } from './stage.ts';

/** Waits for longer than any step takes. */
const PATIENCE_MS = 10_000;

/** A process, and the statement that it has sent. */
export abstract class Actor {
  readonly who: number;
  protected readonly stage: Stage;
  protected sent: Promise<unknown> | null = null;
  #isAnswered = true;

  constructor(stage: Stage, who: number) {
    this.stage = stage;
    this.who = who;
  }

  protected send(statement: Promise<unknown>): void {
    this.#isAnswered = false;
    this.sent = statement;
    const note = () => void (this.#isAnswered = true);
    statement.then(note, note);
  }

  /** Resolves when it waits, or has its answer. */
  async rests(): Promise<'gate' | 'lock' | 'answered'> {
    for (const giveUpAt = Date.now() + PATIENCE_MS; Date.now() < giveUpAt; await sleep(0)) {
      if (this.#isAnswered) return 'answered';
      const place = await this.stage.placeOf(this.who);
      if (place) return place;
    }
    throw new Error(`process ${this.who} hangs`);
  }

  /** Passes a gate. */
  async goOn(): Promise<void> {
    // It may have waited for a lock until now.
    await this.rests();
    await this.stage.letGo(this.who);
    await this.rests();
  }

  /** Has a connection that works, after it has lost one or has none. */
  async reconnect(): Promise<void> {
    await this.sent?.catch(() => undefined);
  }

  async end(): Promise<void> {
    await this.sent?.catch(() => undefined);
  }
}

export class Producer extends Actor {
  readonly #isFree: boolean;
  #client: pg.Client | null = null;

  /** @param isFree whether no gate holds it: each of its statements is a step. */
  constructor(stage: Stage, who: number, isFree: boolean) {
    super(stage, 10 + who);
    this.#isFree = isFree;
  }

  override async reconnect(): Promise<void> {
    await super.reconnect();
    this.#client = await opened(this.stage.url(this.#isFree ? undefined : `model ${this.who}`));
  }

  /** @param event its number, which is the payment's. */
  async emit(event: number, key: number | undefined): Promise<void> {
    this.send(emit(this.#client!, TOPIC, payment(event + 1), keyOf(key)));
    await this.rests();
  }

  async query(statement: string): Promise<void> {
    await this.#client!.query(statement);
  }

  async run(act: (tx: pg.Client) => Promise<unknown>): Promise<void> {
    await act(this.#client!);
  }

  override async end(): Promise<void> {
    await super.end();
    await this.#client!.end();
  }
}

/** A claimed lane, whose handlers are called when the player says so: until then its lease is too short for them. */
class Held {
  readonly run: LaneRun;
  outcome: LaneOutcome | null = null;
  #mayCall: boolean;
  #isOver = false;

  constructor(lane: ClaimedLane, nowMs: number, db: Database) {
    // Several keys side by side have no order in which the player could let them go on.
    this.#mayCall = lane.isShared || lane.id !== lane.home;
    const leaseClock = () => (this.#mayCall ? 0 : Infinity);
    const isOver = () => this.#isOver;
    this.run = new LaneRun(lane, nowMs, options({ db, clock: Date.now, leaseClock, isOver }));
    this.run.start();
  }

  get key(): number {
    const { lane } = this.run;
    return lane.id === lane.home ? 0 : Number(lane.deliveries[0]?.event.orderingKey.slice(4)) - 12;
  }

  letCall(): void {
    this.#mayCall = true;
    this.run.keep(Number.MAX_SAFE_INTEGER, () => undefined);
  }

  holdBack(): void {
    this.#mayCall = this.run.lane.isShared || this.run.lane.id !== this.run.lane.home;
  }

  /** Begins nothing more. @returns what is to be settled; null when another relay has the lane. */
  async end(): Promise<LaneOutcome | null> {
    this.#isOver = true;
    this.letCall();
    await this.run.pauses();
    return (this.outcome ??= this.run.yieldOutcome(false));
  }
}

/** A relay whose turns and handlers go on when the player says so. */
export class Relay extends Actor {
  #connection: Connection | null = null;
  #held: Held[] = [];
  /** By event: how the handler that was called is ended. */
  readonly #calls = new Map<number, (end: HandlerEnd) => void>();
  readonly #scope: Scope;
  readonly subscriber: AttachedSubscriber;

  constructor(stage: Stage, who: number, scope: Scope) {
    super(stage, who);
    this.#scope = scope;
    this.subscriber = subscriberOf(scope, async (payments, tx) => {
      // The next ones join the transaction.
      if (tx) await tx.execute(sql`insert into model.effects values (${payments[0]! - 1})`);
      else this.#holdBack();
      return new Promise<number | void>((resolve, reject) => {
        for (const payment of payments)
          this.#calls.set(payment - 1, (end) => (end instanceof Error ? reject(end) : resolve(end)));
      });
    });
  }

  #holdBack(): void {
    for (const held of this.#held) held.holdBack();
  }

  override async reconnect(): Promise<void> {
    await super.reconnect();
    // Its pools open another connection by themselves.
    this.#connection ??= await connect(this.stage.url(`model ${this.who}`) + this.stage.relaySettings);
  }

  /** Ends its process, and begins another one in its place. */
  async die(): Promise<void> {
    await this.stage.cut(this.who);
    await this.#forget();
    await this.reconnect();
  }

  /** @param ended the keys of the claimed lanes that have come to an end. */
  async turn(ended: readonly number[]): Promise<void> {
    const gathered = ended.map((key) => this.#heldOf(key));
    const outcomes: LaneOutcome[] = [];
    for (const held of gathered) {
      const outcome = await held.end();
      if (outcome) outcomes.push(outcome);
    }
    const { handsOver, maxLanes, maxDeliveries } = this.#scope;
    const room = handsOver ? maxLanes - (this.#held.length - gathered.length) : 0;
    const turn = takeTurn(this.#connection!.db, {
      outcomes,
      subscriptions: room > 0 ? subscriptionsOf([this.subscriber]) : new Map(),
      maxLanes: Math.max(room, 1),
      maxDeliveries,
      maxFannedOut: 1000,
      isLooking: room > 0,
      awaited: [],
      now: null,
    });
    this.send(turn.then((answer) => this.#answered(answer, gathered)));
    await this.rests();
  }

  #answered({ lanes, nowMs }: Turn, gathered: readonly Held[]): void {
    this.#held = this.#held.filter((held) => !gathered.includes(held));
    this.#held.push(...lanes.map((lane) => new Held(lane, nowMs, this.#connection!.db)));
  }

  #heldOf(key: number): Held {
    const held = this.#held.find((one) => one.key === key);
    if (!held) throw new Error(`relay ${this.who} holds no lane of key ${key}`);
    return held;
  }

  /** Lets the next handler of a lane be called. @returns the events whose handlers run. */
  async hand(key: number): Promise<number[]> {
    const held = this.#heldOf(key);
    held.letCall();
    await sleep(0);
    if (this.#scope.handler === 'transactional')
      await until(() => this.#calls.size > 0 || held.run.isPaused, 'no handler is called');
    return [...this.#calls.keys()];
  }

  /** Ends the handler that was called for events. */
  async endCall(events: readonly number[], end: HandlerEnd): Promise<void> {
    this.#calls.get(events[0]!)?.(end);
    for (const event of events) this.#calls.delete(event);
    await sleep(0);
  }

  /** Ends the handlers that share a transaction, one after the other, and the transaction with the last of them. */
  async endTransaction(key: number, events: readonly number[], end: HandlerEnd): Promise<void> {
    for (const event of events) {
      await until(() => this.#calls.has(event), `no handler is called with ${event}`);
      const isLast = event === events.at(-1);
      if (isLast) this.#holdBack();
      await this.endCall([event], isLast ? end : undefined);
    }
    await this.#heldOf(key).run.pauses();
  }

  override async end(): Promise<void> {
    await super.end();
    await this.#forget();
  }

  async #forget(): Promise<void> {
    await this.sent?.catch(() => undefined);
    const held = this.#held.splice(0);
    const ends = held.map((one) => one.end());
    for (const end of this.#calls.values()) end(new PermanentError('it is over'));
    this.#calls.clear();
    await Promise.all(ends);
    await this.#connection?.close();
    this.#connection = null;
  }
}

/** How a handler ends: how many events of its batch it took, and nothing for all of them. */
export type HandlerEnd = Error | number | undefined;

/** The subscriber of a scope. Its handlers have more time than any schedule takes. */
export function subscriberOf(
  { handler, maxAttempts, haltsAtDeadLetter, refusesReplays }: Scope,
  handle: (payments: readonly number[], tx?: Transaction) => Promise<number | void> = async () => undefined,
): AttachedSubscriber {
  const how = {
    maxAttempts,
    timeoutMs: 1 * MINUTE,
    afterDeadLetter: haltsAtDeadLetter ? 'halt' : 'continue',
    onReplay: refusesReplays ? 'refuse' : 'run',
  } as const;
  type One = BusEvent<typeof TOPIC>;
  switch (handler) {
    case 'plain':
      return subscriber(
        'ledger',
        { [TOPIC]: async ({ payload }: One) => void (await handle([payload.amountMinor])) },
        how,
      );
    case 'transactional':
      return subscriber(
        'ledger',
        { [TOPIC]: async ({ payload }: One, { tx }) => void (await handle([payload.amountMinor], tx)) },
        { ...how, transactional: true },
      );
    default: {
      const all = (events: readonly One[]) => handle(events.map(({ payload }) => payload.amountMinor));
      return subscriber('ledger', { [TOPIC]: all }, { ...how, batch: true });
    }
  }
}

async function until(isSo: () => boolean, otherwise: string): Promise<void> {
  for (const giveUpAt = Date.now() + PATIENCE_MS; !isSo(); await sleep(0))
    if (Date.now() > giveUpAt) throw new Error(otherwise);
}
