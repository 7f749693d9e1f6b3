import process from 'node:process';

import { showTimesIn } from '../lib/console/kit/instants.ts';
import { VERSION } from '../lib/platform/version.ts';
import { parse } from './arguments.ts';
import { busAt } from './bus.ts';
import type { Command } from './command.ts';
import table from './commands.json' with { type: 'json' };
import { EXIT, misused } from './failure.ts';
import { helpOf, helpOfAll } from './help.ts';
import { load } from './load.ts';
import type { Listed } from './load.ts';
import { unknownName } from './nearest.ts';
import { report } from './program.ts';
import { commonOptionsOf, readSettings } from './settings.ts';
import { ownTerminal } from './terminal.ts';
import type { Terminal } from './terminal.ts';
import { ownZone } from './times.ts';

/** All commands, as `npm run descriptions` finds them: so the list of them loads none. */
const COMMANDS: readonly Listed[] = table;
const NAMES = COMMANDS.map(({ name }) => name);

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
    const help = about === undefined ? helpOfAll(COMMANDS, pane) : helpOf(await commandNamed(about), pane);
    pane.write(help);
    return name === undefined ? EXIT.usage : EXIT.ok;
  }
  if (name === '--version') {
    terminal.out.write(`postbud ${VERSION}`);
    return EXIT.ok;
  }
  const command = await commandNamed(name);
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
  showTimesIn(given.isSet('utc') ? 'UTC' : ownZone());
  const call = { given, terminal, isJson: given.isSet('json') };
  if (command.isOffline) return await command.run(call);
  return await command.run({ ...call, bus: busAt(await readSettings(given, terminal)) });
}

/** @throws Failure for an unknown name. */
async function commandNamed(name: string): Promise<Command> {
  const found = COMMANDS.find((one) => one.name === name);
  if (found) return await load(found);
  if (name.startsWith('-'))
    throw misused(`The command comes first: npx postbud <command> ${name}`, `Commands: ${NAMES.join(', ')}`);
  throw unknownName('command', name, NAMES);
}
