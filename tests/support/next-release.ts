import { cp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import type { Database } from '../../lib/platform/db/connect.ts';
import { runMigrations } from '../../lib/platform/db/migrations.ts';
import { ROOT } from '../chaos/build.ts';
import type { Change } from '../chaos/build.ts';
import { temporaryFolder } from '../chaos/temporary-folder.ts';
import { runProgram } from './local-server.ts';

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

  /** Runs `npm run migration`. @returns how it ended, and the last line that it wrote. */
  async writeMigration(name: string): Promise<{ readonly code: number | null; readonly said: string }> {
    const { code, output } = await runProgram('dev/migration.ts', {}, [
      '--name',
      name,
      '--folder',
      this.path,
    ]);
    return { code, said: output.trim().split('\n').at(-1)! };
  }

  async migration(file: string): Promise<string> {
    return await readFile(join(this.path, 'migrations', file), 'utf8');
  }

  async migrate(db: Database): Promise<void> {
    await db.transaction((tx) => runMigrations(tx, this.path));
  }

  async remove(): Promise<void> {
    await rm(join(this.path, '..'), { recursive: true });
  }
}

/** The turn has another version in the next release, which takes one argument more. */
export const NEXT_TURN: readonly Change[] = [
  {
    file: 'lib/bus/deliveries/turn.ts',
    from: 'const TURN = `select postbud_turn_4(',
    to: 'const TURN = `select postbud_turn_5(false, ',
  },
];

/** Makes the database that of the next release, by a migration that the command writes. */
export async function migrateToNextRelease(db: Database, folder: SchemaFolder): Promise<string> {
  const turn = await readFile(join(folder.path, 'functions/postbud_turn_4.sql'), 'utf8');
  await folder.edit('functions/postbud_turn_5.sql', () =>
    turn.replace('function postbud_turn_4(', 'function postbud_turn_5(\n  is_tried boolean,'),
  );
  await folder.edit('functions/postbud_slot.sql', (text) => `-- Read anew.\n${text}`);
  await folder.edit('schema.ts', (text) =>
    text.replace("pgTable('last_pass', {", "pgTable('last_pass', {\n  note: text('note'),"),
  );
  const { said } = await folder.writeMigration('tried_turns');
  await folder.migrate(db);
  return said;
}
