import { Counter, Gauge, Registry, collectDefaultMetrics } from 'prom-client';
import { serve } from 'srvx';
import type { Server } from 'srvx';

import { EXIT, Failure } from '../cli/arguments.ts';
import { addReports, emptyReport } from '../lib/bus/relay/report.ts';
import type { RelayReport } from '../lib/bus/relay/report.ts';
import { SECOND } from '../lib/platform/time.ts';

/** Longer than a turn may wait for its answer, and than the pause after one that failed. */
const SILENT_AFTER_MS = 20 * SECOND;

/** What a relay process has done so far. */
export class RelayStatus {
  isEnding = false;
  readonly #startedAt = Date.now();
  #lastTurnAt: number | null = null;
  #earlier = emptyReport();
  #current = emptyReport();

  /** Notes a turn. @param report of the relay that took it: one object for each relay. */
  noteTurn(report: RelayReport): void {
    if (report !== this.#current) {
      this.#earlier = addReports(this.#earlier, this.#current);
      this.#current = report;
    }
    this.#lastTurnAt = Date.now();
  }

  get total(): RelayReport {
    return addReports(this.#earlier, this.#current);
  }

  /** Since the database answered a turn, or since the start. */
  get silentMs(): number {
    return Date.now() - (this.#lastTurnAt ?? this.#startedAt);
  }

  /** Whether the database has answered a turn of late. */
  get isRelaying(): boolean {
    return this.#lastTurnAt !== null && this.silentMs <= SILENT_AFTER_MS;
  }

  health(): Response {
    const isSilent = this.silentMs > SILENT_AFTER_MS;
    const status = isSilent ? 'the database does not answer' : this.isEnding ? 'ending' : 'ok';
    const lastTurnAt = this.#lastTurnAt === null ? null : new Date(this.#lastTurnAt).toISOString();
    return Response.json({ status, lastTurnAt }, { status: isSilent ? 503 : 200 });
  }
}

/**
 * Says on a port how a relay process is: at `/healthz`, and at `/metrics` for Prometheus. Neither names an event or a person,
 * so neither asks for a token.
 *
 * @throws Failure when the port is in use.
 */
export async function serveStatus(status: RelayStatus, port: number): Promise<Server> {
  const metrics = metricsOf(status);
  const server = serve({
    port,
    silent: true,
    // The process ends by itself, when its handlers have.
    gracefulShutdown: false,
    fetch: async ({ url }) => {
      const { pathname } = new URL(url);
      if (pathname === '/healthz') return status.health();
      if (pathname !== '/metrics') return new Response('Not found: /healthz, /metrics\n', { status: 404 });
      const headers = { 'content-type': Registry.PROMETHEUS_CONTENT_TYPE };
      return new Response(await metrics.metrics(), { headers });
    },
  });
  try {
    return await server.ready();
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EADDRINUSE')) throw error;
    throw new Failure(EXIT.failed, `Port ${port} is in use.`, 'Set PORT to another one, or to 0 for any.');
  }
}

/** What a counter counts, by its name. The figures of the whole bus are at the functions' `/platform/metrics`. */
const COUNTERS = {
  turns: ['ticks', 'Turns in the database.'],
  events_placed: ['placed', 'Events that this process gave their places.'],
  deliveries: ['delivered', 'Deliveries that this process settled as delivered.'],
  failures: ['failed', 'Failed attempts that will be retried.'],
  waits: ['waited', 'Attempts whose handler asked to wait.'],
  dead_letters: ['deadLettered', 'Deliveries that this process gave up.'],
  leases_lost: ['leasesLost', 'Lanes that another relay took over.'],
} as const satisfies Record<string, readonly [keyof RelayReport, string]>;

function metricsOf(status: RelayStatus): Registry {
  const registers = [new Registry()];
  collectDefaultMetrics({ register: registers[0]! });
  for (const [name, [count, help]] of Object.entries(COUNTERS)) {
    const collect = function collect(this: Counter) {
      this.reset();
      this.inc(status.total[count]);
    };
    void new Counter({ name: `postbud_relay_process_${name}_total`, help, registers, collect });
  }
  void new Gauge({
    name: 'postbud_relay_process_last_turn_age_seconds',
    help: 'Time since the database answered a turn of this process.',
    registers,
    collect() {
      this.set(status.silentMs / SECOND);
    },
  });
  return registers[0]!;
}
