import { spawn } from 'node:child_process';
import { connect, createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

// A distant database: a proxy, in a process of its own, that delays each answer.

export interface Proxy {
  /** @returns the URL of the same database through the proxy. */
  readonly urlOf: (url: string) => string;
  readonly stop: () => void;
}

/** Starts a proxy. @param delayMs added to every round trip. */
export async function startProxy(url: string, delayMs: number): Promise<Proxy> {
  const args = ['--import', 'tsx', fileURLToPath(import.meta.url), new URL(url).port, String(delayMs)];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const [port] = await new Promise<string[]>((resolve) =>
    createInterface({ input: child.stdout }).once('line', (line) => resolve([line])),
  );
  return {
    urlOf: (direct) => {
      const through = new URL(direct);
      through.port = port!;
      return through.toString();
    },
    stop: () => child.kill(),
  };
}

async function main(port: number, delayMs: number): Promise<void> {
  const server = createServer((client) => {
    const database = connect(port, '127.0.0.1');
    for (const socket of [client, database]) socket.setNoDelay(true).on('error', () => undefined);
    client.on('data', (data) => database.write(data)).on('close', () => database.destroy());
    database.on('data', (data) => later(client, () => client.write(data)));
    database.on('close', () => later(client, () => client.destroy()));
  });
  // Timers of one length fire in the order in which they were set.
  const later = (client: Socket, act: () => void) => setTimeout(() => !client.destroyed && act(), delayMs);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  console.log((server.address() as AddressInfo).port);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await main(Number(process.argv[2]), Number(process.argv[3]));
}
