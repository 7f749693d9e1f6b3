import { neonConfig } from '@neondatabase/serverless';

import { startNeonProxy } from '../../dev/serve-output/neon-proxy.ts';
import type { NeonProxy } from '../../dev/serve-output/neon-proxy.ts';

/** A tunnel that Neon's driver goes through in this process. */
export type NeonTunnel = NeonProxy;

/** Opens a tunnel to a Postgres server and points Neon's driver at it. @param postgresUrl of any database on it. */
export async function openNeonTunnel(postgresUrl: string): Promise<NeonTunnel> {
  const proxy = await startNeonProxy(postgresUrl);
  const address = `${proxy.address}/v2`;
  neonConfig.wsProxy = () => address;
  neonConfig.useSecureWebSocket = false;
  neonConfig.pipelineTLS = false;
  // The server may ask for any kind of password, so the driver must hear it out.
  neonConfig.pipelineConnect = false;
  return proxy;
}
