import { neonConfig } from '@neondatabase/serverless';
import ws from 'ws';

/** Has Neon's driver reach the test's Postgres server: it speaks through a WebSocket. */
export function useTunnel(): void {
  neonConfig.wsProxy = () => process.env['NEON_PROXY']!;
  neonConfig.useSecureWebSocket = false;
  neonConfig.pipelineTLS = false;
  neonConfig.pipelineConnect = false;
  neonConfig.webSocketConstructor = ws;
}
