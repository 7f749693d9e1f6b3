import { InvalidConfiguration } from '../config.ts';
import type { Config } from '../config.ts';

/** What anyone may know of this process. */
export interface Health {
  readonly ok: true;
  /** Seconds since this process started. */
  readonly uptime: number;
  readonly llmConfigured: boolean;
  readonly emailConfigured: boolean;
  /** Whether the audit trail has a database to be in. */
  readonly auditConfigured: boolean;
}

/** Tells what this process is set up for. Asks nobody: a probe must not wait, wake a database or cost anything. */
export function healthOf(config: () => Config): Health {
  const known = readable(config);
  return {
    ok: true,
    uptime: process.uptime(),
    llmConfigured: Boolean(known?.chat.apiKey),
    emailConfigured: Boolean(known?.mail),
    auditConfigured: known !== null && known.database.kind !== 'none',
  };
}

/**
 * One wrong variable stops every function that reads the environment, so nothing counts as configured then. The
 * process is up all the same, which is what a probe asks: the log of a failing function names the variable.
 */
function readable(config: () => Config): Config | null {
  try {
    return config();
  } catch (error) {
    if (error instanceof InvalidConfiguration) return null;
    throw error;
  }
}
