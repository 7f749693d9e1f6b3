import { endpointsWithSharedSecrets, readConfig, readable, wrongVariables } from '../platform/config.ts';
import type { Config } from '../platform/config.ts';
import type { VisitorLimits } from '../platform/http/visit.ts';
import { log } from '../platform/log.ts';
import { createLimiter } from '../platform/rate-limit/create-limiter.ts';
import type { Limiter } from '../platform/rate-limit/limiter.ts';
import { createVisitors } from '../platform/rate-limit/visitors.ts';
import type { VisitorLimit, Visitors } from '../platform/rate-limit/visitors.ts';
import { misspeltVariables } from './misspelt-variables.ts';

// Shared by the functions of one process, which serves many requests at the same time: one limiter. The pool is in database.ts.
let read: Config | undefined;
let counting: Limiter | undefined;
let visitors: Visitors | undefined;

/** The configuration. Invalid variables are logged once; reading one throws InvalidConfiguration. */
export function config(): Config {
  if (read) return read;
  read = readConfig();
  for (const { variable, message } of wrongVariables())
    log('error', 'an environment variable is invalid; features that need it are off', {
      variable,
      reason: message,
    });
  for (const { variable, message: reason } of misspeltVariables(read.setVariables)) {
    // Other programs have variables that begin so, too.
    const level = variable.startsWith('WEBHOOK_') ? 'warn' : 'error';
    log(level, 'an environment variable is invalid; it has no effect', { variable, reason });
  }
  const shared = endpointsWithSharedSecrets(read.webhooks);
  if (shared.length > 0) log('warn', 'webhook endpoints have a secret in common', { endpoints: shared });
  return read;
}

/** Whether this deployment relays: a preview only with `RELAY=on`, and none with an invalid `RELAY`. */
export function relays(): boolean {
  return readable(() => config().relays) ?? false;
}

/** Whether a database is configured, validly or not: a failure to record must then be noticed. */
export function hasDatabase(): boolean {
  return readable(() => config().database)?.kind !== 'none';
}

/** The limiter of this process. @throws InvalidConfiguration */
export function limiter(): Limiter {
  return (counting ??= createLimiter(config().redis));
}

/** Makes the limits of one visitor. @param limits from the shortest window on. @throws InvalidConfiguration */
export function perVisitor(limits: readonly VisitorLimit[]): VisitorLimits {
  const { deployed, redis } = config();
  // Instances that share a Redis share its token, and so derive the same keys for visitors.
  visitors ??= createVisitors({ isBehindPlatform: deployed, secret: redis?.token });
  return { limiter: limiter(), visitors, limits };
}
