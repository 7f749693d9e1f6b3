import { readable } from '../../platform/config.ts';
import type { AlertSettings } from '../../platform/config.ts';
import { deepestCodeOf } from '../../platform/http/no-connection.ts';
import { log } from '../../platform/log.ts';
import { SECOND } from '../../platform/time.ts';

/** A watcher answers in some 200 ms, and the next minute's call makes up for one that is lost. */
const TIMEOUT_MS = 10 * SECOND;

/**
 * Tells a watcher outside that the relay works, by calling its address. Never rejects: a watcher that can't be reached is
 * logged, without the address, which is a password.
 */
export async function beat(settings: AlertSettings): Promise<void> {
  // A wrong variable has been logged when the process started.
  const url = readable(() => settings.heartbeatUrl);
  if (url === undefined) return;
  try {
    // A redirect would lead to an address that nobody configured, even one inside.
    const response = await fetch(url, { redirect: 'manual', signal: AbortSignal.timeout(TIMEOUT_MS) });
    await response.body?.cancel();
    if (!response.ok) log('warn', 'the heartbeat was refused', { status: response.status });
  } catch (error) {
    log('warn', 'the heartbeat did not arrive', { reason: deepestCodeOf(error) ?? 'timeout' });
  }
}
