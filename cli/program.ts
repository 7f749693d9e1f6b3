import process from 'node:process';

import { InvalidConfiguration } from '../lib/config.ts';
import { parse } from './arguments.ts';
import type { Given, Options } from './arguments.ts';
import { atMost } from './command.ts';
import { EXIT, Failure } from './failure.ts';
import { ownTerminal } from './terminal.ts';
import type { Terminal } from './terminal.ts';

/** A command line of one purpose, such as `npm run doctor`. */
export interface Program {
  /** How it is called, and what it does: its help. */
  readonly usage: string;
  readonly options: Options;
  /** @returns what to end with. @throws Failure, InvalidConfiguration */
  readonly run: (given: Given, terminal: Terminal) => Promise<number>;
}

/** Runs it as this process, and tells what goes wrong: how to call it only where it was called wrongly. */
export async function runProgram({ usage, options, run }: Program): Promise<void> {
  const terminal = ownTerminal();
  const { out, err } = terminal;
  const args = process.argv.slice(2);
  try {
    if (args.some((arg) => arg === '--help' || arg === '-h')) return out.write(usage);
    const given = parse(args, { ...options, help: { help: 'this help' } });
    atMost(0, given);
    process.exitCode = await run(given, terminal);
  } catch (error) {
    if (!(error instanceof Failure || error instanceof InvalidConfiguration)) throw error;
    err.write(err.paint('red', error.message));
    if (error instanceof Failure && error.advice !== null) err.write(error.advice);
    if (error instanceof Failure && error.exitCode === EXIT.usage) err.write(`\n${usage}`);
    process.exitCode = error instanceof Failure ? error.exitCode : EXIT.usage;
  }
}
