import { printableJson } from '../lib/platform/visible.ts';
import type { Given, Options } from './arguments.ts';
import type { Bus } from './bus.ts';
import { misused } from './failure.ts';
import type { Terminal } from './terminal.ts';

/** One of `npx postbud …`. */
export type Command = OnlineCommand | OfflineCommand;

/** A command that asks a server. */
export interface OnlineCommand extends Described {
  readonly isOffline?: undefined;
  /** @returns the exit code. @throws Failure */
  readonly run: (call: Call) => Promise<number>;
}

/** A command that reads this release alone: it needs neither a server nor a token. */
export interface OfflineCommand extends Described {
  readonly isOffline: true;
  /** @returns the exit code. @throws Failure */
  readonly run: (call: OfflineCall) => Promise<number>;
}

export interface Described {
  readonly name: string;
  /** For the list of commands: a verb and its object. */
  readonly summary: string;
  /** The words after `npx postbud`, a line for each way to call it. */
  readonly usage: readonly string[];
  /** Paragraphs for the command's own help. */
  readonly notes: readonly string[];
  readonly options: Options;
  readonly examples: readonly (readonly [line: string, does: string])[];
}

/** One use of an offline command. */
export interface OfflineCall {
  readonly given: Given;
  readonly terminal: Terminal;
  readonly isJson: boolean;
}

/** One use of a command that asks a server. */
export interface Call extends OfflineCall {
  readonly bus: Bus;
}

export function writeJson({ terminal }: OfflineCall, json: unknown): void {
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
