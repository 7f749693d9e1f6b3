import { readdirSync } from 'node:fs';

import type { Action } from '../lib/console/kit/action.ts';
import type { Operation } from '../lib/console/kit/operation.ts';
import type { View } from '../lib/console/kit/view.ts';
import { actionCommand } from './action.ts';
import type { Command, Described } from './command.ts';
import { operationCommand } from './operation-command.ts';
import { viewCommand } from './read.ts';

/** A command in the list of all. */
export interface Listed {
  readonly name: string;
  readonly summary: string;
  /**
   * The file of the console that declares the view, the action or the operation which it follows from: `timers/views`.
   * Without one, its own file is in `commands/`.
   */
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
  const command = (await declaredIn(of)).get(name);
  if (!command) throw new TypeError(`${of}.ts has nothing for the command ${name}`);
  return command();
}

/** Finds all commands: each file in `commands/`, and each view, action and operation that has words for one and no file. */
export async function listCommands(): Promise<readonly Listed[]> {
  const written = readdirSync(FOLDER).map((file) => ({ name: file.replace(/\.ts$/, '') }));
  const derived = await Promise.all(
    readdirSync(CONSOLE, { recursive: true, encoding: 'utf8' })
      .filter((file) => /^(?!kit)[^/]+\/(?:views|actions|operations)\.ts$/.test(file))
      .map(async (file) => {
        const of = file.replace(/\.ts$/, '');
        // One that does more than its view has a file of its own.
        const names = [...(await declaredIn(of)).keys()].filter((name) =>
          written.every((one) => one.name !== name),
        );
        return names.map((name) => ({ name, of }));
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

/** Makes the commands of the views, the actions or the operations that a file of the console declares, in the list that it exports. */
async function declaredIn(of: string): Promise<ReadonlyMap<string, () => Command>> {
  const [capability, kind] = of.split('/');
  if (kind === 'views') {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- that of its views
    const views = listIn(await import(`../lib/console/${capability}/views.ts`)) as readonly View[];
    return new Map(
      views.flatMap((view) => (view.command ? [[view.command.name, () => viewCommand(view)] as const] : [])),
    );
  }
  if (kind === 'operations') {
    const exported: object = await import(`../lib/console/${capability}/operations.ts`);
    const operations = Object.values(exported).flat().filter(isOperation);
    return new Map(operations.map((one) => [one.verb, () => operationCommand(one)]));
  }
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- that of its actions
  const actions = listIn(await import(`../lib/console/${capability}/actions.ts`)) as readonly Action<never>[];
  return new Map(
    actions.flatMap((action) => {
      const { name, command } = action;
      return command ? [[command.name ?? name, () => actionCommand(action)] as const] : [];
    }),
  );
}

/** Each file exports one list. */
const listIn = (exported: object): unknown => Object.values(exported).find(Array.isArray);

const isOperation = (exported: unknown): exported is Operation =>
  typeof exported === 'object' && exported !== null && 'verb' in exported;
