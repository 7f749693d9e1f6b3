import { existsSync } from 'node:fs';

import { defineConfig } from 'vitest/config';
import type { Plugin, TestProjectConfiguration } from 'vitest/config';

/** A copy of a build's output outside the project: what `npm run test:artefact` has the suites run against. */
const artefact = process.env['POSTBUD_ARTEFACT'];

/**
 * Files take turns in a process, which spares each the start of Node and of the packages. Their modules, spies and
 * variables are their own: tests/support/own-modules.ts.
 */
const inTurns = {
  isolate: false,
  setupFiles: ['tests/support/own-modules.ts'],
  // It remembers the latest time at which it made an id, also one that a file before made up.
  server: { deps: { inline: ['uuid'] } },
};

const withPostgres = { globalSetup: ['tests/support/global-setup.ts'] };

const withBrowser = { globalSetup: [...withPostgres.globalSetup, 'tests/support/browser-setup.ts'] };

/** What nobody waits for between two edits: `npm run test:long`. CI runs it too. */
const LONG = [
  'tests/browser/directory-{forgeries,refusals,sign-in,tabs}.test.ts',
  'tests/browser/{backfill,console,database-away,dismiss,erase,expired-session,leaving}.test.ts',
  'tests/browser/{payments-stopped,smoke,waits,watching}.test.ts',
  'tests/database/{backfill,cancelled-turns,chaos-mistakes,crash,doctor,drivers,erase,event-search}.test.ts',
  'tests/database/{identifiers,isolation}.test.ts',
  'tests/database/{lost-answers,next-release,no-answer,operator-races,plans,receive-crash}.test.ts',
  'tests/database/{receive-document,reconciliation,refused-surroundings,relay-process,relay-time,rename}.test.ts',
  'tests/database/{restart,role-rights,surroundings,timer-search,timers}.test.ts',
  'tests/http/{cli-database,cli-process,cron,fuzz,fuzz-operators,local-server,misconfigured}.test.ts',
  'tests/http/{operators-personal,posted-at-once,visitor-limits}.test.ts',
  'tests/package/{outbox,outside,receivers}.test.ts',
  'tests/unit/{newcomer,testing-databases}.test.ts',
];

/** A project of the tests in one folder. */
const folder = (name: string, more: object = withPostgres): TestProjectConfiguration => ({
  extends: true,
  test: { name, include: [`tests/${name}/**/*.test.ts`], exclude: LONG, ...more },
});

const sources: TestProjectConfiguration[] = [
  folder('unit', inTurns),
  {
    extends: true,
    test: {
      name: 'types',
      include: [],
      typecheck: {
        enabled: true,
        only: true,
        include: ['tests/types/**/*.test-d.ts'],
        // `npm run check` has the compiler read all the rest.
        tsconfig: 'tests/types/tsconfig.json',
      },
    },
  },
  folder('database', { ...inTurns, ...withPostgres }),
  folder('package'),
  folder('browser', withBrowser),
  folder('http', { ...inTurns, ...withPostgres }),
  { extends: true, test: { name: 'long', include: LONG, ...withBrowser } },
];

/**
 * What goes over the wire does so to the functions that the build made, which a server like the platform's serves; what
 * calls a function's file calls the bundle. The rest of `tests/http` calls parts of the functions with fakes, and so
 * cannot tell a source from a bundle.
 */
const built: TestProjectConfiguration[] = [
  {
    extends: true,
    test: {
      name: 'wire',
      include: [
        'tests/artefact/**/*.test.ts',
        // The others need the subscribers that a local server attaches.
        'tests/browser/console.test.ts',
        'tests/browser/site.test.ts',
        'tests/http/openapi-contract.test.ts',
      ],
      ...withBrowser,
    },
  },
  {
    extends: true,
    plugins: [bundledFunctions()],
    test: {
      name: 'functions',
      include: ['tests/http/{chat,cron,fuzz,health,inquiry,metrics,operators,webhooks}.test.ts'],
      // So that a test can have them anew, with another environment.
      server: { deps: { inline: [/\.func\//] } },
      ...withPostgres,
    },
  },
];

/** Gives tests that import a function's file the function of the build in its place. */
function bundledFunctions(): Plugin {
  return {
    name: 'bundled-functions',
    enforce: 'pre',
    resolveId(source) {
      const [, name] = /^\.\.\/\.\.\/(api\/.*)\.ts$/.exec(source) ?? [];
      if (name === undefined) return undefined;
      const file = `${artefact}/functions/${name}.func/${name}.mjs`;
      if (!existsSync(file)) throw new Error(`the build has no ${name}`);
      return file;
    },
  };
}

export default defineConfig({
  test: {
    // Deadlines are for what hangs: a machine may have other things to do.
    testTimeout: 90_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 30_000, interval: 20 } },
    // What a test spies on is itself again before the next one.
    restoreMocks: true,
    // Without it two cores get one worker, and much of a test's time is waiting.
    maxWorkers: 3,
    projects: artefact === undefined ? sources : built,
  },
});
