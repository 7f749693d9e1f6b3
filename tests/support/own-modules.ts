import { context, trace } from '@opentelemetry/api';
import { vi } from 'vitest';

// Files take turns in a process. Each begins with modules of its own, the real time and the variables of the environment,
// and without what another one registered with OpenTelemetry, which keeps it in the global object.
vi.useRealTimers();
vi.unstubAllEnvs();
vi.unstubAllGlobals();
vi.resetModules();
trace.disable();
context.disable();
