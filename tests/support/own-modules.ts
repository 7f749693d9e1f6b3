import { vi } from 'vitest';

// Files take turns in a process. Each begins with modules of its own, the real time and the variables of the environment.
vi.useRealTimers();
vi.unstubAllEnvs();
vi.unstubAllGlobals();
vi.resetModules();
