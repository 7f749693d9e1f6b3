import process from 'node:process';

import { parse } from './arguments.ts';
import type { Given, Options } from './arguments.ts';
import { atMost } from './command.ts';
import { EXIT, Failure } from './failure.ts';
import { ownTerminal } from './terminal.ts';
import type { Terminal } from './terminal.ts';

/** A command line with a single purpose, such as `npm run doctor`. */
export interface Program {
  /** Its help: how to call it, and what it does. */
  readonly usage: string;
  readonly options: Options;
  /** @returns the exit code. @throws Failure, InvalidConfiguration */
  readonly run: (given: Given, terminal: Terminal) => Promise<number>;
}

/** Runs a program as this process and reports failures, with the usage after a wrong command line. */
export async function runProgram({ usage, options, run }: Program): Promise<void> {
  const terminal = ownTerminal();
  const args = process.argv.slice(2);
  try {
    if (args.some((arg) => arg === '--help' || arg === '-h')) return terminal.out.write(usage);
    const given = parse(args, { ...options, help: { help: 'show this help' } });
    atMost(0, given);
    process.exitCode = await run(given, terminal);
  } catch (error) {
    process.exitCode = await report(error, terminal);
    if (error instanceof Failure && error.exitCode === EXIT.usage) terminal.err.write(`\n${usage}`);
  }
}

/** Writes what went wrong and what to do. @returns the exit code. @throws any other error, as it is. */
export async function report(error: unknown, { err, progress }: Terminal): Promise<number> {
  progress(null);
  if (error instanceof Failure) {
    err.write(err.paint('red', error.message));
    if (error.advice !== null) err.write(error.advice);
    return error.exitCode;
  }
  const { InvalidConfiguration } = await import('../lib/platform/environment.ts');
  if (!(error instanceof InvalidConfiguration)) throw error;
  err.write(err.paint('red', error.message));
  return EXIT.usage;
}
