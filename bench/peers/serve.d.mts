import type pg from 'pg';

export function serve(
  operations: Readonly<Record<string, (order: never) => Promise<unknown>>>,
): Promise<never>;

export function measured<Found extends object>(
  work: () => Promise<Found>,
): Promise<Found & { ms: number; cpuMs: number }>;

export function produce(
  driver: typeof pg,
  url: string,
  order: { producers: number; seconds: number },
  emit: (client: pg.Client, number: number) => Promise<void>,
): Promise<{ count: number; ms: number; cpuMs: number }>;

export function paced(
  order: { count: number; perSecond: number },
  send: (number: number) => Promise<void>,
): Promise<void>;

export function until(look: () => Promise<boolean>): Promise<void>;
