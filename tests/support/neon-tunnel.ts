import { createConnection } from 'node:net';
import type { AddressInfo } from 'node:net';

import { neonConfig } from '@neondatabase/serverless';
import { createWebSocketStream, WebSocketServer } from 'ws';

/** Carries the bytes of Neon's driver, which come in a WebSocket, to a Postgres server on TCP. */
export interface NeonTunnel {
  readonly close: () => Promise<void>;
}

/** Opens a tunnel to a Postgres server and points Neon's driver at it. @param postgresUrl of any database on it. */
export async function openNeonTunnel(postgresUrl: string): Promise<NeonTunnel> {
  const { hostname, port } = new URL(postgresUrl);
  const server = new WebSocketServer({ host: '127.0.0.1', port: 0 });
  await new Promise((resolve) => server.once('listening', resolve));
  server.on('connection', (socket) => {
    const near = createWebSocketStream(socket);
    const far = createConnection({ host: hostname, port: Number(port) });
    // Either end may be cut; the other then ends too.
    near.on('error', () => far.destroy());
    far.on('error', () => near.destroy());
    near.pipe(far).pipe(near);
  });
  const address = `127.0.0.1:${(server.address() as AddressInfo).port}/v2`;
  neonConfig.wsProxy = () => address;
  neonConfig.useSecureWebSocket = false;
  neonConfig.pipelineTLS = false;
  // The server may ask for any kind of password, so the driver must hear it out.
  neonConfig.pipelineConnect = false;
  return {
    async close() {
      for (const client of server.clients) client.terminate();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
