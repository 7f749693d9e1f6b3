import { ROOT_CONTEXT, SpanKind, context, trace } from '@opentelemetry/api';

import { log } from '../log.ts';
import { traceId } from '../trace-context.ts';
import { classOf, endFailed, isTracing, sendSpans, startTracing, tracer } from './tracing.ts';

/** The counts of a relay's report. */
interface Counts {
  readonly placed: number;
  readonly delivered: number;
  readonly failed: number;
  readonly waited: number;
  readonly deadLettered: number;
  readonly leasesLost: number;
}

/**
 * Runs a relay in a span of its own, outside the trace of its caller: a kick comes from a request, and most of the due
 * deliveries have nothing to do with that request. One that found nothing to do leaves neither a span nor a line: a process
 * looks many times a second.
 *
 * @param isLogged whether to write a line to the log.
 * @throws what `run` throws; no line is written then.
 */
export async function inRelaySpan<Report extends Counts>(
  isLogged: boolean,
  run: () => Promise<Report>,
): Promise<Report> {
  const starting = startTracing();
  if (starting) await starting;
  const startedAt = performance.now();
  const report = await (isTracing() ? runTraced(run) : runUntraced(run));
  if (isLogged && hasWorked(report)) {
    const { placed, delivered, failed, waited, deadLettered, leasesLost } = report;
    const counts = { placed, delivered, failed, waited, deadLettered, leasesLost };
    const durationMs = Math.round(performance.now() - startedAt);
    log(leasesLost > 0 ? 'warn' : 'info', 'relay', { ...counts, durationMs });
  }
  return report;
}

async function runTraced<Report extends Counts>(run: () => Promise<Report>): Promise<Report> {
  const span = tracer().startSpan('relay', { kind: SpanKind.INTERNAL, root: true });
  try {
    const report = await context.with(trace.setSpan(ROOT_CONTEXT, span), run);
    // One that is never ended is never sent.
    if (!hasWorked(report)) return report;
    span.setAttributes({
      'postbud.relay.placed': report.placed,
      'postbud.relay.delivered': report.delivered,
      'postbud.relay.failed': report.failed,
      'postbud.relay.dead_lettered': report.deadLettered,
    });
    span.end();
    sendSpans();
    return report;
  } catch (error) {
    endFailed(span, classOf(error));
    sendSpans();
    throw error;
  }
}

function hasWorked({ placed, delivered, failed, waited, deadLettered, leasesLost }: Counts): boolean {
  return placed + delivered + failed + waited + deadLettered + leasesLost > 0;
}

/** Leaves the caller's context only where it has a trace: a context makes every promise within it slower. */
async function runUntraced<Report>(run: () => Promise<Report>): Promise<Report> {
  return await (traceId() === null ? run() : context.with(ROOT_CONTEXT, run));
}
