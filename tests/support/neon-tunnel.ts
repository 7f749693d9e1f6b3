import { neonConfig } from '@neondatabase/serverless';
import { vi } from 'vitest';

import { startNeonProxy } from '../../dev/serve-output/neon-proxy.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import type { Connection } from '../../lib/platform/db/connect.ts';

/**
 * Connects to a database with Neon's driver, through a tunnel that closes with the connection.
 *
 * @param by the way to the same server that the tunnel takes; the URL's own when left out.
 */
export async function connectWithNeon(url: string, by = url): Promise<Connection> {
  const proxy = await startNeonProxy(by);
  const address = `${proxy.address}/v2`;
  neonConfig.wsProxy = () => address;
  neonConfig.useSecureWebSocket = false;
  neonConfig.pipelineTLS = false;
  // The server may ask for any kind of password, so the driver must hear it out.
  neonConfig.pipelineConnect = false;
  vi.stubEnv('DATABASE_DRIVER', 'neon');
  const { db, close } = await connect(url);
  vi.unstubAllEnvs();
  return {
    db,
    async close() {
      await close();
      await proxy.close();
    },
  };
}
