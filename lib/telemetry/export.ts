import { trace } from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import {
  defaultResource,
  detectResources,
  envDetector,
  resourceFromAttributes,
} from '@opentelemetry/resources';
import {
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import type { Sampler } from '@opentelemetry/sdk-trace';
import { waitUntil } from '@vercel/functions';

import type { TracingSettings } from '../config.ts';
import { codeOf, log } from '../log.ts';
import { SECOND } from '../time.ts';

/** A relay that drains a backlog ends spans faster than any collector takes them; what is above this is dropped. */
const QUEUE = 16_384;

/** A collector that is down may keep a function awake this long after its answer. */
const EXPORT_LIMIT_MS = 5 * SECOND;

/**
 * Has spans recorded and sent to the collector that the environment names, by the protocol that all of them speak.
 *
 * The exporter reads the standard's own variables: where to, with which headers, and more attributes of the resource.
 *
 * @returns sends what has ended; to be called after an answer, since a function may be frozen once it has answered.
 * @see https://opentelemetry.io/docs/specs/otel/protocol/exporter/
 */
export function exportTraces({ serviceName, sampler, ratio }: TracingSettings): () => void {
  const provider = new TracerProvider({
    resource: defaultResource()
      .merge(detectResources({ detectors: [envDetector] }))
      .merge(resourceFromAttributes({ 'service.name': serviceName })),
    sampler: samplerOf(sampler, ratio),
    spanProcessors: [
      new BatchSpanProcessor({
        exporter: new OTLPTraceExporter(),
        maxQueueSize: QUEUE,
        exportTimeoutMillis: EXPORT_LIMIT_MS,
      }),
    ],
  });
  trace.setGlobalTracerProvider(provider);
  return flushing(() => provider.forceFlush());
}

function samplerOf(name: TracingSettings['sampler'], ratio: number): Sampler {
  switch (name) {
    case 'parentbased_always_on':
      return new ParentBasedSampler({ root: new AlwaysOnSampler() });
    case 'parentbased_traceidratio':
      return new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(ratio) });
    case 'traceidratio':
      return new TraceIdRatioBasedSampler(ratio);
  }
}

/** One flush at a time: what ends meanwhile goes with the next, however many requests ask for one. */
function flushing(flush: () => Promise<void>): () => void {
  let isRunning = false;
  let isWanted = false;
  let isFailing = false;
  const run = async () => {
    while (isWanted) {
      isWanted = false;
      try {
        await flush();
        isFailing = false;
      } catch (error) {
        // Once, not at every request for as long as the collector is down.
        if (!isFailing) log('warn', 'spans could not be exported', { code: codeOf(firstOf(error)) });
        isFailing = true;
      }
    }
    isRunning = false;
  };
  return () => {
    isWanted = true;
    if (isRunning) return;
    isRunning = true;
    waitUntil(run());
  };
}

/** A provider rejects with the errors of all its processors. */
function firstOf(error: unknown): unknown {
  return Array.isArray(error) ? error[0] : error;
}
