import type { Given, Options } from './arguments.ts';
import type { Bus } from './bus.ts';
import { misused } from './failure.ts';
import type { Terminal } from './terminal.ts';
import { printableJson } from './text.ts';

/** One of `npx postbud …`. */
export interface Command {
  readonly name: string;
  /** For the list of commands: a verb and its object. */
  readonly summary: string;
  /** The words after `npx postbud`, a line for each way to call it. */
  readonly usage: readonly string[];
  /** Paragraphs for the command's own help. */
  readonly notes: readonly string[];
  readonly options: Options;
  readonly examples: readonly (readonly [line: string, does: string])[];
  /** @returns the exit code. @throws Failure */
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

/** @throws Failure for more arguments than a command takes. */
export function atMost(most: number, { positionals }: Given): void {
  const [superfluous] = positionals.slice(most);
  if (superfluous === undefined) return;
  throw misused(
    `Unexpected argument '${superfluous}'.`,
    'Put several words in quotes, or add --help for usage.',
  );
}
