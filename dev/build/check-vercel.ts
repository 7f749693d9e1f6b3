import { execFileSync } from 'node:child_process';
import {
  cpSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, posix, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { isDeepStrictEqual } from 'node:util';

import { OUTPUT, writeOutput } from './output.ts';

/** The version that this check was last run against. Run it before raising the version. */
const VERCEL = 'vercel@60.1.3';

/**
 * `npm run check:vercel`: runs Vercel's own build, as for a push to Git, and checks that its output equals that of
 * `npm run build`: the same routes, crons and files, and the same bundle in each function.
 *
 * It works in a copy of the checkout. It needs the package registry, but no account.
 *
 * @returns the differences.
 */
async function check(root: URL): Promise<string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'postbud-vercel-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  copyCheckout(root, folder);
  run(folder, 'npm', ['ci', '--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error']);

  const functions = await writeOutput(pathToFileURL(`${folder}/`));
  const ours = join(folder, 'ours');
  renameSync(join(folder, OUTPUT), ours);

  const theirs = join(folder, 'theirs');
  const project = { projectId: 'prj_none', orgId: 'team_none', settings: {} };
  writeFileSync(join(folder, '.vercel', 'project.json'), JSON.stringify(project));
  // As on a runner, where the build overwrites the files.
  run(folder, 'npx', ['-y', '-p', 'node@24', '-p', VERCEL, '-c', `vercel build --prod --output ${theirs}`], {
    CI: 'true',
    VERCEL_TELEMETRY_DISABLED: '1',
  });

  return [
    ...difference('config.json', json(ours, 'config.json'), json(theirs, 'config.json')),
    ...difference('static/', filesIn(ours, 'static'), filesIn(theirs, 'static')),
    ...difference('functions/', functionsIn(ours), functionsIn(theirs)),
    ...functions.flatMap(({ name }) => differencesOf(name, ours, theirs)),
  ];
}

/** Copies the files that a commit of everything would contain, so that a change can be checked before its commit. */
function copyCheckout(root: URL, folder: string): void {
  const from = fileURLToPath(root);
  const listed = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: from,
    encoding: 'utf8',
  });
  for (const file of listed.split('\0').filter(Boolean)) {
    // Through a link, changes in the copy would change this checkout, for example its packages.
    if (!lstatSync(join(from, file), { throwIfNoEntry: false })?.isFile()) continue;
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    cpSync(join(from, file), join(folder, file));
  }
}

function run(cwd: string, command: string, args: string[], variables: Record<string, string> = {}): void {
  console.log(`${command} ${args.join(' ')}`);
  execFileSync(command, args, { cwd, stdio: 'inherit', env: { ...process.env, ...variables } });
}

/** Expects in a function of Vercel's build: a file that re-exports the bundle, what we build, and no package. */
function differencesOf(name: string, ours: string, theirs: string): string[] {
  const folder = join('functions', `${name}.func`);
  const bundle = posix.join(posix.dirname(name), `_${posix.basename(name)}.mjs`);
  const beside = filesIn(ours, folder).filter((file) => posix.basename(file).startsWith('_'));
  const files = [
    '.vc-config.json',
    bundle,
    ...beside,
    `${name}.js`,
    `${name}.js.map`,
    'package.json',
  ].toSorted();
  const theirFiles = filesIn(theirs, folder);
  if (!theirFiles.includes(bundle)) return difference(folder, files, theirFiles);
  const code = (...path: string[]) => readFileSync(join(...path), 'utf8');
  const isSame =
    code(ours, folder, `${name}.mjs`) === code(theirs, folder, bundle) &&
    beside.every((file) => code(ours, folder, file) === code(theirs, folder, file));
  const config = json(ours, folder, '.vc-config.json');
  const theirConfig = json(theirs, folder, '.vc-config.json');
  return [
    ...difference(folder, files, theirFiles),
    ...(isSame ? [] : [`${folder}: the bundles differ`]),
    ...SETTINGS.flatMap((key) => difference(`${folder}: ${key}`, config[key], theirConfig[key])),
  ];
}

/** The settings of a function. Its region is not one: Vercel reads that from `vercel.json` at deployment. */
const SETTINGS = [
  'runtime',
  'launcherType',
  'maxDuration',
  'supportsCancellation',
  'supportsResponseStreaming',
];

function difference(what: string, ours: unknown, theirs: unknown): string[] {
  if (isDeepStrictEqual(ours, theirs)) return [];
  return [`${what}\n  Vercel: ${JSON.stringify(theirs)}\n  ours:   ${JSON.stringify(ours)}`];
}

function json(...path: string[]): Record<string, unknown> {
  return JSON.parse(readFileSync(join(...path), 'utf8')) as Record<string, unknown>;
}

function filesIn(output: string, folder: string): string[] {
  const from = join(output, folder);
  return readdirSync(from, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => relative(from, join(parentPath, name)))
    .toSorted();
}

function functionsIn(output: string): string[] {
  return filesIn(output, 'functions').filter((file) => file.endsWith('.vc-config.json'));
}

const found = await check(new URL('../../', import.meta.url));
console.log(found.length > 0 ? found.join('\n') : 'Vercel’s build makes the same output.');
process.exitCode = found.length > 0 ? 1 : 0;
