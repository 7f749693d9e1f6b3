import { readable } from '../../platform/config.ts';
import type { Config } from '../../platform/config.ts';
import type { Health } from './route.ts';

/**
 * Reports what is configured. Calls no service: a probe must not wait, wake a database or cost anything.
 *
 * A service with an invalid variable counts as not configured; the process is healthy all the same.
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
