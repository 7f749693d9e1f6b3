import { execFile } from 'node:child_process';
import { cp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { migrate } from '../../lib/bus/migrations/migrate.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { ROOT } from '../chaos/build.ts';
import type { Change } from '../chaos/build.ts';
import { temporaryFolder } from '../chaos/temporary-folder.ts';

/** A copy of `drizzle/`, to be changed as developers change it. */
export class SchemaFolder {
  readonly path: string;

  private constructor(path: string) {
    this.path = path;
  }

  static async open(): Promise<SchemaFolder> {
    const around = await temporaryFolder('schema');
    await symlink(join(ROOT, 'node_modules'), join(around, 'node_modules'));
    await cp(join(ROOT, 'drizzle'), join(around, 'drizzle'), { recursive: true });
    return new SchemaFolder(join(around, 'drizzle'));
  }

  /** Writes a file anew. @param write makes its text of what it was, which is empty for a new one. */
  async edit(file: string, write: (text: string) => string): Promise<void> {
    const path = join(this.path, file);
    const before = await readFile(path, 'utf8').catch(() => '');
    await writeFile(path, write(before));
  }

  async delete(file: string): Promise<void> {
    await rm(join(this.path, file));
  }

  /** Has Drizzle write a migration of what has changed in the tables, as `npm run migration` does. @returns its statements. */
  async writeMigration(name: string): Promise<readonly string[]> {
    const before = new Set(await this.#migrations());
    const kit = join(ROOT, 'node_modules/drizzle-kit/bin.cjs');
    const options = [
      '--dialect',
      'postgresql',
      '--schema',
      'schema.ts',
      '--out',
      'migrations',
      '--name',
      name,
    ];
    await promisify(execFile)(process.execPath, [kit, 'generate', ...options], { cwd: this.path });
    const file = (await this.#migrations()).find((one) => !before.has(one));
    if (file === undefined) return [];
    return (await readFile(join(this.path, 'migrations', file), 'utf8')).split('--> statement-breakpoint\n');
  }

  async #migrations(): Promise<string[]> {
    return (await readdir(join(this.path, 'migrations'))).filter((one) => one.endsWith('.sql'));
  }

  async migrate(db: Database): Promise<void> {
    await migrate(db, this.path);
  }

  async remove(): Promise<void> {
    await rm(join(this.path, '..'), { recursive: true });
  }
}

/** The turn has another version in the next release, which takes one argument more. */
export const NEXT_TURN: readonly Change[] = [
  {
    file: 'lib/bus/deliveries/turn.ts',
    from: 'const TURN = `select postbud_turn_5(',
    to: 'const TURN = `select postbud_turn_6(false, ',
  },
];

/** Makes the database that of the next release. @returns the statements of its migration. */
export async function migrateToNextRelease(db: Database, folder: SchemaFolder): Promise<readonly string[]> {
  const turn = await readFile(join(folder.path, 'functions/postbud_turn_5.sql'), 'utf8');
  await folder.edit('functions/postbud_turn_6.sql', () =>
    turn.replace('function postbud_turn_5(', 'function postbud_turn_6(\n  is_tried boolean,'),
  );
  await folder.edit('schema.ts', (text) =>
    text.replace("pgTable('last_pass', {", "pgTable('last_pass', {\n  note: text('note'),"),
  );
  const statements = await folder.writeMigration('tried_turns');
  await folder.migrate(db);
  return statements;
}
