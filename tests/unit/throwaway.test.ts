import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { afterEach, beforeEach, expect, test } from 'vitest';

import { whyKept } from '../../dev/build/throwaway.ts';

// A build on Vercel or a runner may overwrite the files of `api/`; one in a developer's checkout may not.

let folder: string;
beforeEach(() => (folder = mkdtempSync(join(tmpdir(), 'postbud-throwaway-'))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const BY = ['-c', 'user.name=Kari', '-c', 'user.email=kari@example.no', '-c', 'init.defaultBranch=main'];

function git(cwd: string, ...args: string[]): void {
  execFileSync('git', [...BY, ...args], { cwd, stdio: 'ignore' });
}

/** A checkout in which somebody has committed. */
function developersCheckout(): string {
  const checkout = join(folder, 'developer');
  mkdirSync(join(checkout, 'api'), { recursive: true });
  writeFileSync(join(checkout, 'api', 'chat.ts'), 'export default {};\n');
  git(checkout, 'init');
  git(checkout, 'add', '.');
  git(checkout, 'commit', '--message', 'Answer');
  return checkout;
}

/** What a runner makes of it. */
function runnersClone(): string {
  developersCheckout();
  git(folder, 'clone', 'developer', 'runner');
  git(join(folder, 'runner'), 'checkout', '--detach');
  return join(folder, 'runner');
}

/** A copy without a repository, such as an upload. */
function upload(): string {
  mkdirSync(join(folder, 'api'));
  return folder;
}

const keptIn = (checkout: string, env: NodeJS.ProcessEnv = { VERCEL: '1', CI: 'true' }) =>
  whyKept(pathToFileURL(`${checkout}/`), env);

test.each(['1', 'true', 'TRUE', 'woodpecker'])(
  'with CI=%s a build overwrites the functions of a clone',
  (CI) => {
    expect(keptIn(runnersClone(), { VERCEL: '1', CI })).toBeNull();
  },
);

test('a build overwrites the functions of an upload', () => {
  expect(keptIn(upload())).toBeNull();
});

test.each([{ VERCEL: '1' }, { VERCEL: '1', CI: '' }, { VERCEL: '1', CI: '0' }, { VERCEL: '1', CI: 'false' }])(
  'with %j a build writes nothing, whatever the checkout',
  (env) => {
    expect(keptIn(runnersClone(), env)).toContain('CI=true');
  },
);

test('outside Vercel’s build nothing is written', () => {
  expect(keptIn(runnersClone(), { CI: 'true' })).toContain('Vercel');
});

test('with CI=true a build writes nothing into a checkout in which somebody has committed', () => {
  expect(keptIn(developersCheckout())).toBe('somebody commits in this checkout');
});

test.each([
  ['changed', 'chat.ts'],
  ['new', 'draft.ts'],
])('with CI=true a build writes nothing over %s functions', (_what, file) => {
  const checkout = runnersClone();
  writeFileSync(join(checkout, 'api', file), 'export default { fetch };\n');
  expect(keptIn(checkout)).toBe('api/ has uncommitted changes');
});
