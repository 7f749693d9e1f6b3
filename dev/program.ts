import process from 'node:process';

import { EXIT, Failure, parse } from '../cli/arguments.ts';
import type { Given, Options } from '../cli/arguments.ts';
import { atMost } from '../cli/command.ts';
import { ownTerminal, report } from '../cli/terminal.ts';
import type { Terminal } from '../cli/terminal.ts';

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
