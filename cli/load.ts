import { readdirSync } from 'node:fs';

import type { Action } from '../lib/console/kit/action.ts';
import { actionCommand } from './action.ts';
import type { Command, Described } from './command.ts';

/** A command in the list of all. */
export interface Listed {
  readonly name: string;
  readonly summary: string;
  /** The capability of the console whose action it follows from; without one, its file is in `commands/`. */
  readonly of?: string;
  readonly isOffline?: boolean;
  /** The placeholder of its argument: `topic`, `subscriber`, or the choices as `bash|zsh|fish`. */
  readonly takes?: string;
  /** The placeholder of the value of each of its own options; that of a flag is empty. */
  readonly options: Readonly<Record<string, string>>;
}

const FOLDER = new URL('commands/', import.meta.url);
const CONSOLE = new URL('../lib/console/', import.meta.url);

export async function load({ name, of }: Pick<Listed, 'name' | 'of'>): Promise<Command> {
  if (of === undefined) {
    const { command }: { readonly command: Command } = await import(`./commands/${name}.ts`);
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
  const all: Pick<Listed, 'name' | 'of'>[] = [...written, ...derived.flat()];
  const sorted = all.toSorted((one, other) => (one.name < other.name ? -1 : 1));
  return await Promise.all(
    sorted.map(async ({ name, ...of }) => {
      const { summary, isOffline, ...described } = await load({ name, ...of });
      return { name, summary, ...of, ...(isOffline && { isOffline }), ...writtenOf(described) };
    }),
  );
}

/** What may be written after a command. Of its arguments only those matter whose words are known. */
function writtenOf({
  usage,
  options,
}: Pick<Described, 'usage' | 'options'>): Pick<Listed, 'takes' | 'options'> {
  const takes = usage
    .flatMap((line) => /^\S+ \[?<?([\w|]+)[>\]]/.exec(line)?.[1] ?? [])
    .find((placeholder) => /^(?:topic|subscriber|name|.+\|.+)$/.test(placeholder));
  const placeholders = Object.entries(options).map(([name, { value = '' }]) => [
    name,
    value.replaceAll(/[<>]/g, ''),
  ]);
  return { ...(takes !== undefined && { takes }), options: Object.fromEntries(placeholders) };
}

const nameOf = ({ name, command }: Action<never>) => command?.name ?? name;

/** The actions that a capability declares, in the list that it exports. */
async function actionsOf(capability: string): Promise<readonly Action<never>[]> {
  const exported: object = await import(`../lib/console/${capability}/actions.ts`);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- it exports one list, that of its actions
  return Object.values(exported).find(Array.isArray) as readonly Action<never>[];
}
