import { readable } from '../config.ts';
import type { Config } from '../config.ts';
import type { Health } from './route.ts';

/**
 * Tells what this process is set up for. Asks nobody: a probe must not wait, wake a database or cost anything.
 *
 * What has a wrong variable does not count as configured. The process is up all the same, which is what a probe asks.
 */
export function healthOf(config: Config): Health {
  const database = readable(() => config.database);
  return {
    ok: true,
    uptime: process.uptime(),
    llmConfigured: Boolean(readable(() => config.chat)?.apiKey),
    emailConfigured: readable(() => config.mail) !== undefined,
    auditConfigured: database !== undefined && database.kind !== 'none',
  };
}
