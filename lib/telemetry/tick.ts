import { ROOT_CONTEXT, SpanKind, context, trace } from '@opentelemetry/api';

import { log } from '../log.ts';
import { traceId } from './trace.ts';
import { classOf, endFailed, isTracing, sendSpans, startTracing, tracer } from './tracing.ts';

/** What a relay did in one run. */
interface Ticked {
  readonly fannedOut: number;
  readonly delivered: number;
  readonly failed: number;
  readonly waited: number;
  readonly deadLettered: number;
  readonly leasesLost: number;
}

/**
 * Has a relay run in a span of its own, and outside the trace of whoever called it: a kick comes from a request, and
 * what is due then has mostly nothing to do with that one.
 *
 * @param isLogged whether to leave a line in the log.
 * @throws what `tick` throws; then there is no line.
 */
export async function inTickSpan<Report extends Ticked>(
  isLogged: boolean,
  tick: () => Promise<Report>,
): Promise<Report> {
  const starting = startTracing();
  if (starting) await starting;
  const startedAt = performance.now();
  const report = await (isTracing() ? traced(tick) : untraced(tick));
  if (isLogged) {
    const { fannedOut, delivered, failed, waited, deadLettered, leasesLost } = report;
    const counts = { fannedOut, delivered, failed, waited, deadLettered, leasesLost };
    const durationMs = Math.round(performance.now() - startedAt);
    log(leasesLost > 0 ? 'warn' : 'info', 'tick', { ...counts, durationMs });
  }
  return report;
}

async function traced<Report extends Ticked>(tick: () => Promise<Report>): Promise<Report> {
  const span = tracer().startSpan('tick', { kind: SpanKind.INTERNAL, root: true });
  try {
    const report = await context.with(trace.setSpan(ROOT_CONTEXT, span), tick);
    span.setAttributes({
      'postbud.tick.fanned_out': report.fannedOut,
      'postbud.tick.delivered': report.delivered,
      'postbud.tick.failed': report.failed,
      'postbud.tick.dead_lettered': report.deadLettered,
    });
    span.end();
    return report;
  } catch (error) {
    endFailed(span, classOf(error));
    throw error;
  } finally {
    sendSpans();
  }
}

/** Entered only where there is something to leave: a context costs every promise within it. */
async function untraced<Report>(tick: () => Promise<Report>): Promise<Report> {
  return await (traceId() === null ? tick() : context.with(ROOT_CONTEXT, tick));
}
