export function serve(
  operations: Readonly<Record<string, (order: never) => Promise<unknown>>>,
): Promise<never>;

export function measured<Found extends object>(
  work: () => Promise<Found>,
): Promise<Found & { ms: number; cpuMs: number }>;

export function produced(
  producers: readonly ((number: number) => Promise<void>)[],
  seconds: number,
): Promise<{ count: number; ms: number; cpuMs: number }>;

/** Milliseconds of a clock that all processes of this machine share. */
export function clock(): number;

export function paced(
  order: { count: number; perSecond: number; afterMs?: number },
  send: (number: number) => Promise<void>,
): Promise<void>;

export function traffic<Topic>(
  start: (topics: Topic[], handle: (key: string) => void) => Promise<() => Promise<void>>,
  send: (topic: Topic, committing: (key: string) => void) => Promise<void>,
): Readonly<Record<'listen' | 'send' | 'seen' | 'quiet', (order: never) => Promise<unknown>>>;

export function until(look: () => Promise<boolean>): Promise<void>;
