import type { Given, Options } from './arguments.ts';
import type { Bus } from './bus.ts';
import { misused } from './failure.ts';
import type { Terminal } from './terminal.ts';
import { printableJson } from './text.ts';

/** One of `npx postbud …`. */
export interface Command {
  readonly name: string;
  /** In the list of commands. */
  readonly summary: string;
  /** What follows `npx postbud`, one line for each way. */
  readonly usage: readonly string[];
  /** What else one has to know. */
  readonly notes: readonly string[];
  readonly options: Options;
  /** A command line, and what it does. */
  readonly examples: readonly (readonly [line: string, does: string])[];
  /** @returns what to end with. @throws Failure */
  readonly run: (call: Call) => Promise<number>;
}

/** One use of a command. */
export interface Call {
  readonly given: Given;
  readonly terminal: Terminal;
  readonly bus: Bus;
  readonly isJson: boolean;
}

export function writeJson({ terminal }: Call, json: unknown): void {
  terminal.out.write(printableJson(json, 2));
}

/** @throws Failure for more words than a command takes. */
export function atMost(words: number, { positionals }: Given): void {
  const superfluous = positionals[words];
  if (superfluous !== undefined) throw misused(`“${superfluous}” is one word too many.`);
}
