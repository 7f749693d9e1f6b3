import { readdirSync } from 'node:fs';

import type { Action } from '../lib/console/kit/action.ts';
import { actionCommand } from './action.ts';
import type { Command } from './command.ts';

/** A command in the list of all. */
export interface Listed {
  readonly name: string;
  readonly summary: string;
  /** The capability of the console whose action it follows from; without one, its file is in `commands/`. */
  readonly of?: string;
}

const FOLDER = new URL('commands/', import.meta.url);
const CONSOLE = new URL('../lib/console/', import.meta.url);

export async function load({ name, of }: Omit<Listed, 'summary'>): Promise<Command> {
  if (of === undefined) {
    const { command }: { readonly command: Command } = await import(new URL(`${name}.ts`, FOLDER).href);
    return command;
  }
  const found = (await actionsOf(of)).find((action) => nameOf(action) === name);
  if (!found) throw new TypeError(`${of} has no action for the command ${name}`);
  return actionCommand(found);
}

/** Finds all commands: each file in `commands/`, and each action that has words for one. */
export async function listCommands(): Promise<readonly Listed[]> {
  const written = readdirSync(FOLDER).map((file) => ({ name: file.replace(/\.ts$/, '') }));
  const derived = await Promise.all(
    readdirSync(CONSOLE, { recursive: true, encoding: 'utf8' })
      .filter((file) => /^(?!kit)[^/]+\/actions\.ts$/.test(file))
      .map(async (file) => {
        const of = file.replace(/\/.*$/, '');
        const actions = await actionsOf(of);
        return actions.flatMap((action) => (action.command ? [{ name: nameOf(action), of }] : []));
      }),
  );
  const all: Omit<Listed, 'summary'>[] = [...written, ...derived.flat()];
  const sorted = all.toSorted((one, other) => (one.name < other.name ? -1 : 1));
  return await Promise.all(
    sorted.map(async ({ name, ...of }) => ({ name, summary: (await load({ name, ...of })).summary, ...of })),
  );
}

const nameOf = ({ name, command }: Action<never>) => command?.name ?? name;

/** The actions that a capability declares, in the list that it exports. */
async function actionsOf(capability: string): Promise<readonly Action<never>[]> {
  const exported: object = await import(new URL(`${capability}/actions.ts`, CONSOLE).href);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- it exports one list, that of its actions
  return Object.values(exported).find(Array.isArray) as readonly Action<never>[];
}
