import { spawnSync } from 'node:child_process';
import { appendFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { EXIT, Failure, misused } from '../cli/failure.ts';
import { runProgram } from '../cli/program.ts';
import { BREAKPOINT, functionsAfterMigrations, functionsInFiles, sqlFiles } from './database-functions.ts';
import type { DatabaseFunctions } from './database-functions.ts';

const USAGE = `npm run migration -- --name <name>

Writes the next migration to drizzle/migrations: what has changed in drizzle/schema.ts, and the functions whose files
in drizzle/functions have changed, are new or are gone. Read it, and commit it with the change.`;

/** `npm run migration`. */
await runProgram({
  usage: USAGE,
  options: {
    name: { value: '<name>', help: 'what it does, for example add_limits' },
    folder: { value: '<folder>', help: 'of the schema, by default drizzle' },
  },
  run: (given, { out }) => {
    const name = given.text('name');
    if (name === undefined || !/^[a-z\d_]+$/.test(name))
      throw misused('--name must be small letters, digits and underscores, for example add_limits.');
    const file = writeMigration(
      given.text('folder') ?? fileURLToPath(new URL('../drizzle', import.meta.url)),
      name,
    );
    out.write(file === null ? 'Nothing has changed since the last migration.' : `Wrote ${file}.`);
    return Promise.resolve(EXIT.ok);
  },
});

/** @returns its path in the folder; null when nothing has changed. */
function writeMigration(folder: string, name: string): string | null {
  const statements = statementsBetween(functionsAfterMigrations(folder), functionsInFiles(folder));
  // Drizzle writes none when the tables are as they were, unless it is to be empty.
  const written = generate(folder, name) ?? (statements.length > 0 ? generate(folder, name, true) : null);
  if (written === null) return null;
  const path = join('migrations', written.file);
  const text = statements.join(`${BREAKPOINT}\n`);
  if (written.isEmpty) writeFileSync(join(folder, path), text);
  else if (text !== '') appendFileSync(join(folder, path), `${BREAKPOINT}\n${text}`);
  return path;
}

/**
 * The statements that make one set of functions of another.
 *
 * @throws Failure where releases that share the database could no longer call a function as they do.
 */
function statementsBetween(before: DatabaseFunctions, after: DatabaseFunctions): string[] {
  const changed = [...after].filter(([name, text]) => before.get(name) !== text);
  for (const [name, text] of changed) {
    const known = before.get(name);
    if (known !== undefined && interfaceOf(known) !== interfaceOf(text) && !takesMore(known, text))
      throw new Failure(
        EXIT.failed,
        `${name} takes or returns something else than before, and the release before still calls it.`,
        `Keep its file as it was, and give the new one the next version, in a file of its own: ${nextVersion(name)}.sql.`,
      );
  }
  const gone = [...before.keys()].filter((name) => !after.has(name));
  for (const name of gone) {
    const [caller] = [...after].find(([, text]) => new RegExp(`\\b${name}\\b`).test(codeOf(text))) ?? [];
    if (caller !== undefined)
      throw new Failure(EXIT.failed, `${caller} calls ${name}, which has no file any more.`);
  }
  const replaced = changed.filter(([name, text]) => takesMore(before.get(name) ?? '', text));
  return [
    ...replaced.map(([name]) => `drop function ${name};\n`),
    ...changed.map(([, text]) => `${text}\n`),
    // A new function has none of the rights of the one that it replaces.
    ...replaced.slice(0, 1).map(() => `select postbud_apply_grants_1('{}');\n`),
    ...gone.map((name) => `drop ${isAggregate(before.get(name)!) ? 'aggregate' : 'function'} ${name};\n`),
  ];
}

function isAggregate(text: string): boolean {
  return /^create or replace aggregate /m.test(text);
}

/** What a function takes and returns, as Postgres compares it. */
function interfaceOf(text: string): string {
  const code = codeOf(text);
  return code.slice(code.indexOf('('), code.search(/\b(?:language|sfunc)\b/)).replaceAll(/\s+/g, ' ');
}

/** Whether a function takes what it took before, and more that the release before leaves out. */
function takesMore(before: string, after: string): boolean {
  const [taken, takes] = [before, after].map((text) => /^ ?(\(.*)\) (returns .*)$/.exec(interfaceOf(text)));
  if (!taken || !takes || taken[2] !== takes[2]) return false;
  const [known, all] = [taken[1]!.trim(), takes[1]!];
  return (
    all.startsWith(`${known},`) &&
    all
      .slice(known.length + 1)
      .split(',')
      .every((added) => added.includes(' default '))
  );
}

/** Without comments. */
function codeOf(text: string): string {
  return text.replaceAll(/--.*$/gm, '');
}

/** `postbud_turn_4` after `postbud_turn_3`. */
function nextVersion(name: string): string {
  const [, stem, version] = /^(.+?)(?:_(\d+))?$/.exec(name)!;
  return `${stem}_${Number(version ?? 1) + 1}`;
}

/** Has Drizzle write a migration of the tables. @returns its file, if there is one. */
function generate(folder: string, name: string, isEmpty = false) {
  const before = new Set(sqlFiles(join(folder, 'migrations')));
  const kit = fileURLToPath(new URL('../node_modules/drizzle-kit/bin.cjs', import.meta.url));
  const options = ['--dialect', 'postgresql', '--schema', 'schema.ts', '--out', 'migrations', '--name', name];
  const { status } = spawnSync(
    process.execPath,
    [kit, 'generate', ...options, ...(isEmpty ? ['--custom'] : [])],
    {
      cwd: folder,
      // It asks whether a column is new or renamed.
      stdio: 'inherit',
    },
  );
  if (status !== 0) throw new Failure(EXIT.failed, 'drizzle-kit could not write the migration.');
  const file = sqlFiles(join(folder, 'migrations')).find((one) => !before.has(one));
  return file === undefined ? null : { file, isEmpty };
}
