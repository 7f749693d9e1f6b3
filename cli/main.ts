import process from 'node:process';

import { showTimesIn } from '../lib/console/kit/words.ts';
import { VERSION } from '../lib/platform/version.ts';
import type { Action } from '../lib/console/kit/action.ts';
import type { Operation } from '../lib/console/kit/operation.ts';
import type { View } from '../lib/console/kit/view.ts';
import { EXIT, misused, parse, unknownName } from './arguments.ts';
import { busAt } from './bus.ts';
import type { Bus } from './bus.ts';
import { helpOf, helpOfAll } from './help.ts';
import { commonOptionsOf, readSettings } from './settings.ts';
import { ownTerminal, report } from './terminal.ts';
import type { Terminal } from './terminal.ts';
import { actionCommand } from './action.ts';
import type { Command } from './command.ts';
import files from './commands.json' with { type: 'json' };
import { operationCommand } from './operation-command.ts';
import { viewCommand } from './view-command.ts';

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
    pane.write(
      about === undefined ? helpOfAll(await allCommands(), pane) : helpOf(await commandNamed(about), pane),
    );
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
  const given = parse(rest, { ...command.options, ...commonOptionsOf(command) });
  // The zone of `TZ`, or of the machine.
  showTimesIn(new Intl.DateTimeFormat().resolvedOptions().timeZone);
  const bus = command.isOffline ? NO_BUS : busAt(await readSettings(given, terminal));
  return await command.run({ given, terminal, isJson: given.isSet('json'), bus });
}

const NO_BUS: Bus = {
  url: new URL('http://nowhere.invalid'),
  ask: async () => {
    throw new TypeError('a command that is offline asks no server');
  },
};

/** The file of each command, as `npm run descriptions` finds it: one command is run without loading the others. */
const FILES: ReadonlyMap<string, string> = new Map(Object.entries(files));
const NAMES = [...FILES.keys()];

/** Loads all of them, for the list of their summaries and for completion. */
export async function allCommands(): Promise<readonly Command[]> {
  return await Promise.all(NAMES.map(commandNamed));
}

/** @throws Failure for an unknown name. */
export async function commandNamed(name: string): Promise<Command> {
  const file = FILES.get(name);
  if (file !== undefined) return (await commandsIn(file)).get(name)!;
  if (name.startsWith('-'))
    throw misused(`The command comes first: npx postbud <command> ${name}`, `Commands: ${NAMES.join(', ')}`);
  throw unknownName('command', name, NAMES);
}

/** Makes the commands that a file has: one of `commands/`, or one of the console that declares views, actions or operations. */
export async function commandsIn(file: string): Promise<ReadonlyMap<string, Command>> {
  const [folder = '', name = ''] = file.split('/');
  const exported = Object.values(await (folder === 'commands' ? written(name) : DECLARED[name]!(folder)));
  const commands = exported.flat().flatMap((one: unknown) => commandOf(one) ?? []);
  return new Map(commands.map((command) => [command.name, command]));
}

const written = async (name: string): Promise<object> => await import(`./commands/${name}.ts`);

const DECLARED: Readonly<Record<string, (folder: string) => Promise<object>>> = {
  views: async (folder) => await import(`../lib/console/${folder}/views.ts`),
  actions: async (folder) => await import(`../lib/console/${folder}/actions.ts`),
  operations: async (folder) => await import(`../lib/console/${folder}/operations.ts`),
};

/** @returns null for what has no words for a command. */
function commandOf(one: unknown): Command | null {
  if (typeof one !== 'object' || one === null) return null;
  /* oxlint-disable typescript/no-unsafe-type-assertion -- each kind has a field that no other has */
  if ('run' in one) return one as Command;
  if ('verb' in one) return operationCommand(one as Operation);
  if (!('command' in one)) return null;
  return 'says' in one ? viewCommand(one as View) : actionCommand(one as Action<never>);
  /* oxlint-enable typescript/no-unsafe-type-assertion */
}
