import { createConnection, createServer } from 'node:net';
import type { Socket } from 'node:net';

/** Stands before a database. */
export interface Gate {
  /** Leads to the database through the gate. */
  readonly url: string;
  /** Lets everything through; refuses connections and ends those that there are; or takes them and says nothing. */
  readonly set: (to: 'open' | 'closed' | 'silent') => void;
  readonly stop: () => void;
}

/** Opens a gate before the database at an address. */
export async function gateTo(databaseUrl: string): Promise<Gate> {
  const behind = new URL(databaseUrl);
  const open = new Set<Socket>();
  let state: Parameters<Gate['set']>[0] = 'open';
  const server = createServer((near) => {
    if (state === 'closed') return near.destroy();
    const far = createConnection(Number(behind.port), behind.hostname);
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(one);
      one.on('data', (bytes) => state !== 'silent' && other.write(bytes));
      one.on('error', () => other.destroy());
      one.on('close', () => (open.delete(one), other.destroy()));
    }
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const address = server.address();
  const url = new URL(behind);
  url.port = String(typeof address === 'object' && address?.port);
  const set: Gate['set'] = (to) => {
    state = to;
    // Half a conversation leads nowhere.
    for (const socket of open) if (to !== 'silent') socket.destroy();
  };
  return {
    url: url.href,
    set,
    stop: () => {
      set('closed');
      server.close();
    },
  };
}
