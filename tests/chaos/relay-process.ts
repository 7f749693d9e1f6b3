import { setMaxListeners } from 'node:events';
import { closeSync, fstatSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';

import { keepRelaying } from '../../lib/bus/relay/keep-relaying.ts';
import { relay } from '../../lib/bus/relay/relay.ts';
import { PermanentError, RetryAfter } from '../../lib/bus/subscribers/outcome.ts';
import { attach, attachBatches } from '../../lib/bus/subscribers/subscriber.ts';
import type {
  AttachedSubscriber,
  BatchContext,
  BusEvent,
  DeliveryContext,
} from '../../lib/bus/subscribers/subscriber.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import type { Transaction } from '../../lib/platform/db/connect.ts';
import { run } from '../../lib/platform/db/statement.ts';
import { logTo } from '../../lib/platform/log.ts';
import { sleep } from '../../lib/platform/time.ts';
import { aheadMs } from './clock.ts';
import { PLANNED } from './history.ts';
import type { HandlerEnd, SubscriberLimits } from './history.ts';
import type { Release } from './releases.ts';
import type { Act, Plan } from './schedule.ts';

/** What a relay process is told, as messages from its parent. */
export type Order =
  | { readonly order: 'run'; readonly run: RunOrder }
  /** To end what runs and say so. */
  | { readonly order: 'rest' };

export interface RunOrder {
  readonly relay: string;
  readonly release: Release;
  /** Through the proxy. */
  readonly url: string;
  /** Of the run: its clock, its log and the count of its calls. */
  readonly folder: string;
  readonly subscribers: readonly SubscriberLimits[];
  readonly topics: Readonly<Record<string, readonly string[]>>;
  /** By the events' tags. */
  readonly plans: Readonly<Record<string, Plan>>;
  /** How long each relay takes turns at most; 1.5 s when left out. */
  readonly roundMs?: number;
  /** Whether it relays as `npm run relay` does. */
  readonly isLasting?: boolean;
}

const machineNow = performance.now.bind(performance);

/** One run of this process: relays, one after the other, until it is told to rest. */
class Run {
  readonly #order: RunOrder;
  readonly #clockFile: string;
  readonly #log: number;
  readonly #ended: Promise<void>;
  readonly #resting = new AbortController();
  #hasRested = false;
  #starts = 0;

  constructor(order: RunOrder) {
    this.#order = order;
    this.#clockFile = join(order.folder, 'clock');
    this.#log = openSync(join(order.folder, 'log'), 'a');
    // For this process too time passes when the clock is moved.
    const now = () => machineNow() + aheadMs(this.#clockFile);
    Object.defineProperty(performance, 'now', { value: now, configurable: true });
    // Turns that fail and are taken again.
    logTo((line) => {
      const { code, message } = line;
      if (typeof code === 'string') this.#note({ k: 'error', code, message });
      process.stdout.write(`${JSON.stringify(line)}\n`);
    });
    this.#ended = this.#relay();
  }

  async rest(): Promise<void> {
    this.#resting.abort();
    await this.#ended;
    Object.defineProperty(performance, 'now', { value: machineNow, configurable: true });
    this.#hasRested = true;
    closeSync(this.#log);
  }

  async #relay(): Promise<void> {
    const { url, roundMs = 1500, isLasting } = this.#order;
    const { db, close } = await connect(url);
    const subscribers = this.#order.subscribers.map((limits) => this.#subscriber(limits));
    const stop = this.#resting.signal;
    if (isLasting)
      await keepRelaying({ db, subscribers, until: Infinity, glanceEveryMs: 40, stop }).catch(
        () => undefined,
      );
    while (!stop.aborted) {
      try {
        await relay({ db, subscribers, until: Date.now() + roundMs });
      } catch (error) {
        const { code = '', message } = error as Error & { code?: string };
        this.#note({ k: 'error', code, message: message.slice(0, 200) });
        await sleep(20);
      }
      await sleep(10);
    }
    await close();
  }

  #subscriber({ name, batch, ...limits }: SubscriberLimits): AttachedSubscriber {
    const topics = Object.entries(this.#order.topics).filter(([, names]) => names.includes(name));
    const toAll = <Handler>(handler: Handler) =>
      Object.fromEntries(topics.map(([topic]) => [topic, handler]));
    if (batch) {
      return attachBatches(
        name,
        toAll((events: readonly BusEvent[], context: BatchContext & { tx?: Transaction }) =>
          this.#handleBatch(name, events, context),
        ),
        limits,
      );
    }
    const handler = (event: BusEvent, context: DeliveryContext & { tx?: Transaction }) =>
      this.#handle(name, event, context);
    return attach(name, toAll(handler), limits);
  }

  /** Takes one event after the other, until one of them can not be taken. */
  async #handleBatch(
    name: string,
    events: readonly BusEvent[],
    { deliveries, attemptedAt, signal, tx }: BatchContext & { tx?: Transaction },
  ): Promise<number | undefined> {
    // One for each event.
    setMaxListeners(0, signal);
    for (const [taken, event] of events.entries()) {
      const context = { ...deliveries[taken]!, attemptedAt, signal, ...(tx && { tx }) };
      try {
        await this.#handle(name, event, context, taken > 0);
      } catch (error) {
        // The whole transaction is broken, or there is nothing to keep.
        if (taken === 0 || (error as { code?: string }).code === '22012') throw error;
        return taken;
      }
      // What comes after the limit is not waited for.
      if (signal.aborted) throw signal.reason;
    }
    return undefined;
  }

  /** @param isBehind whether it is one of a batch, and not the first: it can neither wait nor be given up. */
  #handle(
    name: string,
    event: BusEvent,
    context: DeliveryContext & { tx?: Transaction },
    isBehind = false,
  ): unknown {
    const tag = tagOf(event.payload);
    const act = this.#nextAct(tag, name);
    this.#starts += 1;
    const n = this.#starts;
    this.#note({
      k: 'start',
      n,
      tag,
      eventId: event.id,
      subscriber: name,
      release: this.#order.release,
      version: event.version,
      attempt: context.attempt,
      replayed: context.replayed,
      plan: 'ms' in act ? `${act.act} ${act.ms} ms` : act.act,
    });
    let hasEnded = false;
    const end = (how: HandlerEnd, more: { ms?: number } = {}) => {
      if (!hasEnded) this.#note({ k: 'end', n, end: how, ...more });
      hasEnded = true;
    };
    const { tx } = context;
    if (act.act === 'returns at once' && !tx) {
      // Not even a promise: the relay has a way of its own for such handlers.
      end('ok');
      return undefined;
    }
    context.signal.addEventListener('abort', () => end('timed out'), { once: true });
    const handled = async () => {
      try {
        // What a batch leaves behind it commits with what was taken: such a one has no effect until it is.
        if (!isBehind) await this.#leaveTrace(name, event, tx);
        await perform(act, tx, () => end('crashes'));
        if (isBehind) await this.#leaveTrace(name, event, tx);
        end('ok');
      } catch (error) {
        if (error instanceof RetryAfter && !isBehind) end('waits', { ms: error.ms });
        else end(error instanceof PermanentError && !isBehind ? 'permanent' : 'threw');
        throw error;
      }
    };
    return handled();
  }

  async #leaveTrace(name: string, event: BusEvent, tx: Transaction | undefined): Promise<void> {
    if (!tx) return;
    const values = [event.id, name];
    await run(tx, { text: 'insert into chaos.effects (event_id, subscriber) values ($1, $2)', values });
  }

  /** Counts calls in a file of one byte for each, which outlives the process. */
  #nextAct(tag: string, name: string): Act {
    const calls = openSync(join(this.#order.folder, `${tag}.${name}`), 'a');
    const acts = this.#order.plans[tag]?.[name] ?? [];
    const act = acts[fstatSync(calls).size] ?? { act: 'returns at once' };
    writeSync(calls, '.');
    closeSync(calls);
    return act;
  }

  #note(entry: object): void {
    // A handler that has overrun its time may still run.
    if (this.#hasRested) return;
    // In this order: by the time on record a clock that is read as moved had been moved.
    const ahead = aheadMs(this.#clockFile);
    const real = Date.now();
    const t = real + ahead;
    writeSync(this.#log, `${JSON.stringify({ ...entry, relay: this.#order.relay, t, real })}\n`);
  }
}

/** Told from all that a lost connection has drivers throw. */
class Planned extends Error {
  readonly code = PLANNED;
}

async function perform(act: Act, tx: Transaction | undefined, crashes: () => void): Promise<void> {
  switch (act.act) {
    case 'returns at once':
      return;
    case 'returns after':
      await sleep(act.ms);
      return;
    case 'blocks its process for': {
      const until = Date.now() + act.ms;
      while (Date.now() < until);
      return;
    }
    case 'throws after':
      await sleep(act.ms);
      throw new Planned('as planned');
    case 'breaks its transaction':
      if (!tx) throw new Planned('as planned, without a transaction');
      await run(tx, { text: 'select 1 / 0', values: [] });
      return;
    case 'overruns its time by':
      await sleep(200 + act.ms);
      return;
    case 'asks to wait':
      throw new RetryAfter(act.ms);
    case 'fails permanently':
      throw new PermanentError('as planned');
    case 'finds nobody there':
      throw Object.assign(new Error('as planned'), { code: 'unreachable' });
    case 'exits its process':
      crashes();
      process.exit(1);
    // eslint-disable-next-line no-fallthrough -- the process is gone
    case 'kills its process':
      crashes();
      process.kill(process.pid, 'SIGKILL');
      await sleep(1000);
  }
}

/** By which the schedule knows the event: a field that the bus makes nothing of. */
function tagOf(payload: object): string {
  const fields = payload as { resourceId?: string; intentId?: string };
  return fields.resourceId ?? fields.intentId ?? '';
}

let current: Run | null = null;
process.on('message', (message) => {
  const order = message as Order;
  if (order.order === 'run') current = new Run(order.run);
  else void current?.rest().then(() => process.send?.('resting'));
});
process.on('SIGTERM', () => void current?.rest().then(() => process.exit()));
// Its parent is gone.
process.on('disconnect', () => process.exit());
process.send?.('ready');
