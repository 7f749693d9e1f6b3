import process from 'node:process';

import { parse } from './arguments.ts';
import { busAt } from './bus.ts';
import { catalog } from './catalog.ts';
import type { Command } from './command.ts';
import { deadLetters } from './dead-letters.ts';
import { doctor } from './doctor.ts';
import { EXIT, misused } from './failure.ts';
import { helpOf, helpOfAll } from './help.ts';
import { unknownName } from './nearest.ts';
import { report } from './program.ts';
import { replay } from './replay.ts';
import { commonOptionsOf, readSettings } from './settings.ts';
import { tail } from './tail.ts';
import { ownTerminal } from './terminal.ts';
import type { Terminal } from './terminal.ts';
import { tick } from './tick.ts';
import { topics } from './topics.ts';

const COMMANDS: readonly Command[] = [topics, deadLetters, replay, doctor, tick, tail, catalog];

/** `npx postbud`. */
export async function main(): Promise<void> {
  process.exitCode = await commandLine(process.argv.slice(2), ownTerminal());
}

/** Runs a command line and reports failures. @returns the exit code. */
export async function commandLine(args: readonly string[], terminal: Terminal): Promise<number> {
  try {
    return await run(args, terminal);
  } catch (error) {
    return await report(error, terminal);
  }
}

/** @throws Failure */
async function run(args: readonly string[], terminal: Terminal): Promise<number> {
  const [name, ...rest] = args.map((arg) => (arg === '-h' ? '--help' : arg));
  if (name === undefined || name === '--help' || name === 'help') {
    const about = name === 'help' ? rest[0] : undefined;
    const pane = name === undefined ? terminal.err : terminal.out;
    pane.write(about === undefined ? helpOfAll(COMMANDS, pane) : helpOf(commandNamed(about), pane));
    return name === undefined ? EXIT.usage : EXIT.ok;
  }
  const command = commandNamed(name);
  if (rest.includes('--help')) {
    terminal.out.write(helpOf(command, terminal.out));
    return EXIT.ok;
  }
  if (rest.some((arg) => /^--token(=|$)/.test(arg))) {
    throw misused(
      'A token on the command line is visible to all users of this machine and stays in the shell’s history.',
      'Set POSTBUD_TOKEN or use --token-file <file>.',
    );
  }
  const given = parse(rest, { ...command.options, ...commonOptionsOf(command) });
  const call = { given, terminal, isJson: given.isSet('json') };
  if (command.isOffline) return await command.run(call);
  return await command.run({ ...call, bus: busAt(await readSettings(given, terminal)) });
}

function commandNamed(name: string): Command {
  const command = COMMANDS.find((one) => one.name === name);
  if (command) return command;
  const names = COMMANDS.map((one) => one.name);
  if (name.startsWith('-'))
    throw misused(`The command comes first: npx postbud <command> ${name}`, `Commands: ${names.join(', ')}`);
  throw unknownName('command', name, names);
}
