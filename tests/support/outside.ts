import { execFile, spawn } from 'node:child_process';
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { writePackage } from '../../dev/build/package/write.ts';
import type { BuiltPackage } from '../../dev/build/package/write.ts';

const root = new URL('../../', import.meta.url);
const run = promisify(execFile);

/** The packages that the component has besides ours, in the versions that this repository has. */
const PACKAGES = [
  'pg',
  'srvx',
  'ws',
  'drizzle-orm',
  '@neondatabase/serverless',
  '@electric-sql/pglite',
  'typescript',
  '@types/node',
  '@types/pg',
  '@types/ws',
];

/** Clients and hosts that only a component elsewhere has. */
const CLIENTS = ['postgres@3', 'kysely@0.29', 'knex@3', 'typeorm@1', 'sequelize@6'];
const PRISMA = ['prisma@7', '@prisma/client@7', '@prisma/adapter-pg@7'];
/** What judges a package. The compiler of an older major version also has an API, which says what editors show. */
const JUDGES = ['publint@0.3', '@arethetypeswrong/cli@0.18', 'typescript-5@npm:typescript@5.9'];
const HOSTS = ['express@5', '@types/express@5', 'fastify@5', 'hono@4', '@hono/node-server@1'];

const PRISMA_SCHEMA = `
generator client {
  provider = "prisma-client"
  output   = "src/generated"
  importFileExtension = "ts"
}
datasource db {
  provider = "postgresql"
}
model effects {
  event_id String @id
}
`;

/** A repository outside this one, with a component that installed the package. */
export interface Outside {
  readonly folder: string;
  readonly built: BuiltPackage;
  /** Compiles files of the repository. @returns what the compiler complained about. */
  compile(settings: object, files: readonly string[]): Promise<string>;
  /** Writes `src/generated/client.ts`, the client of a table `effects`. */
  generatePrismaClient(): Promise<void>;
  /** Runs a program of an installed package. @returns what it wrote. */
  run(program: string, args: readonly string[]): Promise<string>;
  /** Starts a compiled file. @returns when it has written something that fits. */
  start(
    file: string,
    variables: Readonly<Record<string, string>>,
    args: readonly string[],
    written: RegExp,
  ): Promise<Started>;
  remove(): void;
}

interface Started {
  readonly output: string;
  readonly found: RegExpExecArray;
  readonly stop: () => void;
}

/** Builds the package, and installs it in a new folder with the files of `tests/package/outside/`. */
export async function makeOutside(): Promise<Outside> {
  const folder = mkdtempSync(join(tmpdir(), 'postbud-outside-'));
  const built = await writePackage(root, join(folder, 'dist'));
  const versions = [
    ...PACKAGES.map((name) => `${name}@${versionOf(name)}`),
    ...CLIENTS,
    ...PRISMA,
    ...HOSTS,
    ...JUDGES,
  ];
  writeFileSync(join(folder, 'package.json'), '{ "name": "resources", "private": true, "type": "module" }');
  await run('npm', ['install', '--no-audit', '--no-fund', '--prefer-offline', built.tarball, ...versions], {
    cwd: folder,
  });
  mkdirSync(join(folder, 'src'));
  for (const sources of [new URL('tests/package/outside/', root), new URL('tests/package/clients/', root)]) {
    for (const name of readdirSync(sources)) copyFileSync(new URL(name, sources), join(folder, 'src', name));
  }
  return {
    folder,
    built,
    async compile(settings, files) {
      const config = {
        compilerOptions: {
          target: 'es2023',
          module: 'nodenext',
          strict: true,
          skipLibCheck: true,
          rewriteRelativeImportExtensions: true,
          rootDir: 'src',
          outDir: 'out',
          ...settings,
        },
        files: files.map((file) => `src/${file}`),
      };
      writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config));
      const tsc = join(folder, 'node_modules/typescript/bin/tsc');
      return await run(process.execPath, [tsc, '--pretty', 'false'], { cwd: folder }).then(
        ({ stdout }) => stdout,
        ({ stdout }: { stdout: string }) => stdout,
      );
    },
    async generatePrismaClient() {
      writeFileSync(join(folder, 'schema.prisma'), PRISMA_SCHEMA);
      // The generator needs no engine, but the command downloads one, unless it is told that there is one.
      const env = { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: '/bin/true', CHECKPOINT_DISABLE: '1' };
      const prisma = join(folder, 'node_modules/prisma/build/index.js');
      await run(process.execPath, [prisma, 'generate', '--schema', 'schema.prisma'], { cwd: folder, env });
    },
    async run(program, args) {
      const path = join(folder, 'node_modules/.bin', program);
      const { stdout } = await run(path, args, { cwd: folder }).catch((error: unknown) => {
        throw new Error(`${program} failed: ${(error as { stdout: string }).stdout}`, { cause: error });
      });
      return stdout;
    },
    start: async (file, variables, args, written) => await startIn(folder, file, variables, args, written),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

function versionOf(name: string): string {
  const { version } = JSON.parse(
    readFileSync(new URL(`node_modules/${name}/package.json`, root), 'utf8'),
  ) as { version: string };
  return version;
}

async function startIn(
  folder: string,
  file: string,
  variables: Readonly<Record<string, string>>,
  args: readonly string[],
  written: RegExp,
): Promise<Started> {
  const { PATH = '', HOME = '' } = process.env;
  const child = spawn(process.execPath, [join('out', file), ...args], {
    cwd: folder,
    env: { PATH, HOME, ...variables },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  return await new Promise((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        output += text;
        const found = written.exec(output);
        if (found) resolve({ output, found, stop: () => void child.kill('SIGKILL') });
      });
    }
    child.on('close', (code) => reject(new Error(`${file} ended with ${code}:\n${output}`)));
  });
}
