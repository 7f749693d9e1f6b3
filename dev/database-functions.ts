import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { EXIT, Failure } from '../cli/failure.ts';

/** The statements that create database functions, comments included, by the names of the functions. */
export type DatabaseFunctions = ReadonlyMap<string, string>;

/** Stands between the statements of a migration. */
export const BREAKPOINT = '--> statement-breakpoint';

const CREATED = /^create or replace (?:function|aggregate) (\w+)/gm;
const DROPPED = /^drop (?:function|aggregate) (?:if exists )?(\w+)/m;

/**
 * The functions as they are: each file of `functions` has one, of its name.
 *
 * @param folder of the schema.
 * @throws Failure that names a file which has none, another one or several.
 */
export function functionsInFiles(folder: string): DatabaseFunctions {
  return new Map(
    sqlFiles(join(folder, 'functions')).map((file) => {
      const text = readFileSync(join(folder, 'functions', file), 'utf8').trim();
      const names = [...text.matchAll(CREATED)].map(([, name]) => name!);
      if (`${names.join()}.sql` === file) return [names[0]!, text];
      const created = names.length === 0 ? 'no function' : names.join(' and ');
      throw new Failure(
        EXIT.failed,
        `drizzle/functions/${file} creates ${created}.`,
        `A file has one function, of its name: create or replace function ${file.slice(0, -'.sql'.length)}.`,
      );
    }),
  );
}

/** The functions as a database has them after the migrations. @param folder of the schema. */
export function functionsAfterMigrations(folder: string): DatabaseFunctions {
  const functions = new Map<string, string>();
  for (const file of sqlFiles(join(folder, 'migrations'))) {
    for (const statement of readFileSync(join(folder, 'migrations', file), 'utf8').split(BREAKPOINT)) {
      const [created] = statement.matchAll(CREATED);
      if (created) functions.set(created[1]!, statement.trim());
      const dropped = DROPPED.exec(statement);
      if (dropped) functions.delete(dropped[1]!);
    }
  }
  return functions;
}

/** Their names, in the order in which migrations run. */
export function sqlFiles(folder: string): string[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith('.sql'))
    .toSorted();
}
