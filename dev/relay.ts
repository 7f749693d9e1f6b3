import process from 'node:process';

import { withDatabase } from './database.ts';
import { EXIT, misused } from '../cli/arguments.ts';
import { runProgram } from './program.ts';
import { keepRelaying } from '../lib/bus/relay/keep-relaying.ts';
import { beat } from '../lib/components/alerts/heartbeat.ts';
import { config } from '../lib/components/postbud.ts';
import { subscribersOf } from '../lib/components/registry.ts';
import { withSmokeTests } from '../lib/components/smoke-test.ts';
import { HealthRecorder } from '../lib/components/subscriber-health/recorder.ts';
import { keepPerforming } from '../lib/edge/cron/keep-performing.ts';
import { onAbort } from '../lib/platform/abort.ts';
import type { Database } from '../lib/platform/db/connect.ts';
import { driverOf, run } from '../lib/platform/db/statement.ts';
import { TransactionEnded } from '../lib/platform/gate.ts';
import { handlersUntil } from '../lib/platform/lifetime.ts';
import { log, logError } from '../lib/platform/log.ts';
import { RelayStatus, serveStatus } from './relay-port.ts';
import { requireRightVariables } from './right-variables.ts';

const USAGE = `npm run relay

Relays the events of DATABASE_URL, and does all else that the cron does, until SIGTERM or SIGINT. Then it begins nothing
more, waits up to 25 seconds for running handlers, and gives back what it holds; a second signal ends it at once. Any
number of these, and of crons, may run at once.

PORT (3000) answers /healthz and /metrics. The log goes to stdout. docs/deploy.md says when to run it.`;

/** Events of SQL producers are to be seen within 50 ms. */
const GLANCE_EVERY_MS = 35;

/** `npm run relay`. */
await runProgram({
  usage: USAGE,
  options: {},
  async run() {
    requireRightVariables();
    if (!config().relays)
      throw misused('RELAY is off.', 'Remove it, or set it to on: a relay process does nothing else.');
    await withDatabase(['DATABASE_URL'], relayUntilStopped);
    return EXIT.ok;
  },
});
// Handlers that were cut off may still run.
process.exit();

async function relayUntilStopped(db: Database): Promise<void> {
  // Without tables, or rights on them, it says so and ends.
  await run(driverOf(db), { text: 'select at from last_pass', values: [] });
  process.on('unhandledRejection', outliveForgotten);
  const status = new RelayStatus();
  const server = await serveStatus(status, config().port);
  // Not the database of lib/components/database.ts, whose commits kick a relay that would have to end too.
  const subscribers = subscribersOf(config(), () => Promise.resolve(db));
  HealthRecorder.of(db);
  const { stop, cutOff } = signals(status);
  const isCutOff = new Promise<void>((resolve) => onAbort(cutOff.signal, resolve));
  log('info', 'the relay process runs', {
    port: Number(new URL(server.url ?? '').port),
    subscribers: [...new Set(subscribers.map(({ name }) => name))],
  });
  const performing = keepPerforming({
    db,
    subscribers,
    settings: config,
    signal: stop.signal,
    // As of the cron: where the database answers no turn, the watcher is to wake somebody.
    heartbeat: async () => {
      if (status.isRelaying) await beat(config().alerts);
    },
  });
  // It throws if every relay failed; the log has every error.
  const relaying = keepRelaying({
    db,
    subscribers: withSmokeTests(subscribers),
    until: Infinity,
    glanceEveryMs: GLANCE_EVERY_MS,
    stop: stop.signal,
    signal: cutOff.signal,
    isLogged: true,
    onTurn: (report) => status.noteTurn(report),
  }).catch(() => undefined);
  await relaying;
  // A duty may wait for a lock, and loses nothing by being cut off.
  await Promise.race([performing, isCutOff]);
  const { delivered, failed, leasesLost } = status.total;
  log('info', 'the relay process has ended', { delivered, failed, leasesLost });
  await server.close(true);
}

/** Keeps a handler that does not await all of its work from ending the process for all others. */
function outliveForgotten(error: unknown): void {
  if (!(error instanceof TransactionEnded)) throw error;
  logError('a handler used its transaction after it had returned', error, {});
}

/** Has the first SIGTERM or SIGINT stop the relay, and cut off what has not ended when the time for it is over. */
function signals(status: RelayStatus): Record<'stop' | 'cutOff', AbortController> {
  const [stop, cutOff] = [new AbortController(), new AbortController()];
  const end = (signal: NodeJS.Signals) => {
    status.isEnding = true;
    log('info', 'the relay process ends', { signal });
    setTimeout(() => cutOff.abort(), handlersUntil() - Date.now()).unref();
    stop.abort();
    for (const other of ['SIGINT', 'SIGTERM'] as const) process.removeListener(other, end);
  };
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, end);
  return { stop, cutOff };
}
