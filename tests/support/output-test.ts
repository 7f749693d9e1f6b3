import { test as base, vi } from 'vitest';

/**
 * Vitest's `test` for what needs no database, with one fixture:
 *
 * - `output`: what the test wrote to standard output and standard error, which stay silent until the next test.
 */
export const test = base.extend('output', (): Output => {
  const writes: string[] = [];
  for (const stream of [process.stdout, process.stderr])
    vi.spyOn(stream, 'write').mockImplementation((text) => writes.push(String(text)) > 0);
  const text = () => writes.join('');
  const lines = () =>
    text()
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line) as LogLine);
  return {
    writes,
    text,
    lines,
    linesOf: (message) => lines().filter((line) => line['message'] === message),
  };
});

/** What a test wrote so far. */
export interface Output {
  /** Each call of `write`, which is one system call. */
  readonly writes: string[];
  readonly text: () => string;
  /** The lines of the log among it. */
  readonly lines: () => LogLine[];
  /** The lines of the log with this message. */
  readonly linesOf: (message: string) => LogLine[];
}

type LogLine = Readonly<Record<string, unknown>>;
