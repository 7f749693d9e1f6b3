import { spawn } from 'node:child_process';
import { writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

import { emit } from '../../lib/bus/outbox/emit.ts';
import { relay } from '../../lib/bus/relay/relay.ts';
import { PermanentError } from '../../lib/bus/subscribers/outcome.ts';
import { subscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { connect } from '../../lib/platform/db/connect.ts';

/** Instructions for a relay in its own process: how its handler treats payments, by their number (`amountMinor`). */
export interface RelayOrders {
  readonly url: string;
  /** The clock, in epoch milliseconds; the database's when left out. */
  readonly now?: number;
  /** At this one the process kills itself with SIGKILL, before the handler is done. */
  readonly dieAt?: number;
  /** At this one the handler throws a PermanentError. */
  readonly refuse?: number;
  /** Gives the handlers a transaction, in which they emit one `payment.failed` for each payment. */
  readonly transactional?: boolean;
}

/** Runs a relay of the payments of `ledger` in a process of its own, until it is idle or dies. */
export async function relayInProcess(
  orders: RelayOrders,
): Promise<{ begun: number[]; signal: NodeJS.Signals | null; code: number | null }> {
  const child = spawn(
    process.execPath,
    ['--import', 'tsx', fileURLToPath(import.meta.url), JSON.stringify(orders)],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  const begun: number[] = [];
  createInterface(child.stdout).on('line', (line) => begun.push(Number(line)));
  return await new Promise((resolve) => {
    child.on('close', (code, signal) => resolve({ begun, code, signal }));
  });
}

async function main(orders: RelayOrders): Promise<void> {
  const { db, close } = await connect(orders.url);
  // For the relay no time passes: how many handlers share a commit depends on how long they take.
  if (orders.transactional) Object.defineProperty(performance, 'now', { value: () => 0 });
  const handle = (number: number): void => {
    // Not through the stream, which would still hold the line when the process dies.
    writeSync(1, `${number}\n`);
    if (number === orders.dieAt) process.kill(process.pid, 'SIGKILL');
    if (number === orders.refuse) throw new PermanentError(`refused ${number}`);
  };
  const ledger = orders.transactional
    ? subscriber(
        'ledger',
        {
          'payment.captured': async ({ payload }, { tx }) => {
            await emit(tx, 'payment.failed', {
              intentId: payload.intentId,
              bookingId: payload.bookingId,
              provider: payload.provider,
              reason: String(payload.amountMinor),
              providerEventId: payload.providerEventId,
            });
            handle(payload.amountMinor);
          },
        },
        { transactional: true },
      )
    : subscriber('ledger', { 'payment.captured': ({ payload }) => handle(payload.amountMinor) });
  await relay({
    db,
    subscribers: [ledger],
    until: Date.now() + 45_000,
    ...(orders.now === undefined ? {} : { now: orders.now }),
  });
  await close();
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  await main(JSON.parse(process.argv[2]!) as RelayOrders);
