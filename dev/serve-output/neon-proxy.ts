import { createConnection } from 'node:net';
import type { AddressInfo } from 'node:net';
import { Transform } from 'node:stream';

import { createWebSocketStream, WebSocketServer } from 'ws';

/** Stands in for the proxy in front of Neon's databases. */
export interface NeonProxy {
  /** Host and port. */
  readonly address: string;
  readonly close: () => Promise<void>;
}

/**
 * Forwards the bytes of Neon's driver from a WebSocket to a Postgres server on TCP.
 *
 * @param postgresUrl of any database on a server that asks for no password.
 */
export async function startNeonProxy(postgresUrl: string): Promise<NeonProxy> {
  const { hostname, port } = new URL(postgresUrl);
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0 });
  await new Promise((resolve) => server.once('listening', resolve));
  server.on('connection', (socket) => {
    const near = createWebSocketStream(socket);
    const far = createConnection({ host: hostname, port: Number(port) });
    // When either end closes, the other does too.
    near.on('error', () => far.destroy());
    far.on('error', () => near.destroy());
    near.pipe(withoutPassword()).pipe(far).pipe(near);
  });
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      for (const client of server.clients) client.terminate();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/**
 * The tag of a message that holds a password.
 *
 * @see https://www.postgresql.org/docs/current/protocol-message-formats.html
 */
const PASSWORD = 0x70;

/**
 * Forwards everything except a password right after the first message: the driver sends it unasked, for the proxy, and
 * a server that did not ask for it would close the connection.
 */
function withoutPassword(): Transform {
  let held = Buffer.alloc(0);
  let isStarted = false;
  let isThrough = false;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      held = Buffer.concat([held, chunk]);
      if (!isStarted && held.length >= 4 && held.length >= held.readUInt32BE(0)) {
        isStarted = true;
        const end = held.readUInt32BE(0);
        this.push(held.subarray(0, end));
        held = held.subarray(end);
      }
      if (isStarted && !isThrough && held.length > 0) {
        if (held[0] !== PASSWORD) isThrough = true;
        else if (held.length >= 5 && held.length > held.readUInt32BE(1)) {
          isThrough = true;
          held = held.subarray(1 + held.readUInt32BE(1));
        }
      }
      if (isThrough && held.length > 0) {
        this.push(held);
        held = Buffer.alloc(0);
      }
      done();
    },
  });
}
