import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';

import packageJson from '../package.json' with { type: 'json' };
import { catalog } from '../lib/bus/catalog/catalog.ts';
import {
  catalogVersion,
  catalogVersionOf,
  changesBetween,
} from '../lib/elsewhere/catalog-description/catalog-version.ts';
import { payloadVersions, updatedVersions } from '../lib/elsewhere/catalog-description/payload-versions.ts';
import { openApi } from '../lib/platform/http/openapi/openapi.ts';
import { commandsIn } from '../cli/main.ts';
import { withExamples } from './examples.ts';
import type { Recorded } from './examples.ts';
import { allOperations } from './operations.ts';

/** The file of a generated document: of `docs/`, except the list of commands. */
export const documentUrl = (name: string) =>
  new URL(name === 'commands' ? '../cli/commands.json' : `../docs/${name}.json`, import.meta.url);

/** The payload schemas that were kept so far, brought up to date with the catalog. */
export function currentVersions() {
  const kept: unknown = JSON.parse(readFileSync(documentUrl('payload-versions'), 'utf8'));
  return updatedVersions(payloadVersions.parse(kept), catalog);
}

/** The catalog as it was when `npm run descriptions` ran last, and as it is. */
export function catalogVersions() {
  const kept: unknown = JSON.parse(readFileSync(documentUrl('catalog-version'), 'utf8'));
  return { kept: catalogVersion.parse(kept), current: catalogVersionOf(catalog, packageJson.version) };
}

/**
 * The answers that the document has. `RECORD_EXAMPLES=1 npx vitest run --project http tests/http/openapi-contract.test.ts` records them
 * anew; `npm run descriptions` then brings them into form.
 */
function recordedAnswers(): Recorded {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- written by us, in OpenAPI's form
  const { paths } = JSON.parse(readFileSync(documentUrl('openapi'), 'utf8')) as KeptOpenApi;
  const operations = Object.values(paths).flatMap(({ get, post }) => [get, post]);
  const byId = new Map(operations.flatMap((one) => (one ? [[one.operationId, one] as const] : [])));
  return (id, example) =>
    Object.values(byId.get(id)?.responses ?? {})
      .flatMap(({ content = {} }) => Object.values(content))
      .find(({ examples }) => examples?.[example])?.examples?.[example]?.value;
}

interface KeptOpenApi {
  readonly paths: Readonly<Record<string, { readonly get?: KeptOperation; readonly post?: KeptOperation }>>;
}

interface KeptOperation {
  readonly operationId: string;
  readonly responses: Readonly<
    Record<string, { readonly content?: Readonly<Record<string, { readonly examples?: KeptExamples }>> }>
  >;
}

type KeptExamples = Readonly<Record<string, { readonly value?: unknown }>>;

/** Finds each command by its name. One that does more than the view or the operation of its name is in `cli/commands/`. */
async function fileOfEachCommand(): Promise<Readonly<Record<string, string>>> {
  const inFolder = (folder: string, pattern: RegExp) =>
    readdirSync(new URL(folder, import.meta.url), { recursive: true, encoding: 'utf8' }).flatMap(
      (file) => pattern.exec(file)?.[1] ?? [],
    );
  const files = [
    ...inFolder('../lib/console/', /^((?!kit)[^/]+\/(?:views|actions|operations))\.ts$/),
    ...inFolder('../cli/', /^(commands\/.+)\.ts$/),
  ];
  const found = await Promise.all(
    files.map(async (file) => [...(await commandsIn(file)).keys()].map((name) => [name, file] as const)),
  );
  const byName = new Map(found.flat());
  return Object.fromEntries([...byName].toSorted(([one], [other]) => (one < other ? -1 : 1)));
}

/** Generates the documents of `docs/`, and the list of commands: the text of each by its name, and the breaks that forbid writing them. */
export async function descriptions() {
  const { versions, breaks } = currentVersions();
  const recorded = recordedAnswers();
  const operations = (await allOperations()).map((operation) => withExamples(operation, recorded));
  const documents = {
    openapi: openApi(operations),
    'payload-versions': versions,
    'catalog-version': catalogVersions().current,
    commands: await fileOfEachCommand(),
  };
  return {
    texts: Object.entries(documents).map(([name, value]) => [name, jsonText(value)] as const),
    breaks,
  };
}

const LINE = 110;

/** Writes JSON with each object or list on one line if it fits, so that a change is easy to see. */
function jsonText(value: unknown): string {
  return `${jsonLines(value, '')}\n`;
}

function jsonLines(value: unknown, indent: string): string {
  // No line break in it is part of a string.
  const flat = JSON.stringify(value, null, 1).replaceAll(/\n\s*/g, ' ');
  if (typeof value !== 'object' || value === null || indent.length + flat.length <= LINE) return flat;
  const inner = `${indent}  `;
  const members = Array.isArray(value)
    ? value.map((item) => inner + jsonLines(item, inner))
    : Object.entries(value)
        .filter(([, member]) => member !== undefined)
        .map(([name, member]) => `${inner}${JSON.stringify(name)}: ${jsonLines(member, inner)}`);
  const [open, close] = Array.isArray(value) ? ['[', ']'] : ['{', '}'];
  return `${open}\n${members.join(',\n')}\n${indent}${close}`;
}

/** Another catalog is another minor version of the package, so that no version stands for two catalogs. */
function raiseMinor(changes: readonly string[]): void {
  const [major, minor] = packageJson.version.split('.').map(Number);
  const version = `${major}.${minor! + 1}.0`;
  const edit = (file: string, from: string, to: string) => {
    const url = new URL(`../${file}`, import.meta.url);
    writeFileSync(url, readFileSync(url, 'utf8').replace(from, to));
  };
  edit('package.json', `"version": "${packageJson.version}"`, `"version": "${version}"`);
  edit('lib/platform/version.ts', `'${packageJson.version}'`, `'${version}'`);
  const lines = changes.length === 0 ? ['Two changes of the catalog came together.'] : changes;
  const section = `## ${version}\n\n${lines.map((line) => `- ${line}`).join('\n')}\n\n`;
  edit('docs/changelog.md', '## ', `${section}## `);
  console.log(`The catalog has changed: version ${version}.\n${lines.map((line) => `  ${line}`).join('\n')}`);
}

/** `npm run descriptions`: writes what is generated in `docs/`, unless a payload has changed without a new version. */
if (process.argv[1] === import.meta.filename) {
  const { texts, breaks } = await descriptions();
  for (const { message } of breaks) console.error(`${message}\n`);
  if (breaks.length > 0) process.exit(1);
  const { kept, current } = catalogVersions();
  for (const [name, text] of texts) writeFileSync(documentUrl(name), text);
  if (kept.fingerprint !== current.fingerprint) {
    raiseMinor(changesBetween(kept, current));
    // With the new version, which is in this process already.
    execFileSync(process.execPath, [...process.execArgv, import.meta.filename], { stdio: 'inherit' });
  }
}
