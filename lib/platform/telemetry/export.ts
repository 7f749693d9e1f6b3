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

/** A relay that drains a backlog ends spans faster than collectors accept them. Spans beyond this are dropped. */
const QUEUE = 16_384;

/** How long a collector that is down may keep a function awake after its answer. */
const EXPORT_LIMIT_MS = 5 * SECOND;

/**
 * Starts to record spans and send them by OTLP to the collector that the environment names.
 *
 * The exporter itself reads the standard variables: the endpoint, headers, and attributes of the resource.
 *
 * @returns a function that sends the spans that have ended. Call it after an answer, because a function may be frozen then.
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
  return oneAtATime(() => provider.forceFlush());
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

/** Runs one flush at a time: spans that end meanwhile go with the next one, however many requests ask for it. */
function oneAtATime(flush: () => Promise<void>): () => void {
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
        // Logged once, not at every request while the collector is down.
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

/** Gives the first error of the array that a provider throws. */
function firstOf(error: unknown): unknown {
  return Array.isArray(error) ? error[0] : error;
}
