import type { TestProject } from 'vitest/node';

import { startPostgres } from './postgres.ts';
import type { PostgresServer } from './postgres.ts';

declare module 'vitest' {
  interface ProvidedContext {
    readonly postgresUrl: string;
  }
}

/** The server of the run. Each project of the run loads this file anew. */
interface Shared {
  server: Promise<PostgresServer> | null;
  projects: number;
}

const KEY = Symbol.for('postbud.tests.postgres');
const shared = ((globalThis as { [KEY]?: Shared })[KEY] ??= { server: null, projects: 0 });

/** One Postgres server for the whole run; each test file has a database of its own in it. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  shared.projects += 1;
  shared.server ??= startPostgres({ isDurable: false });
  const server = await shared.server;
  project.provide('postgresUrl', server.url);
  return async () => {
    shared.projects -= 1;
    if (shared.projects > 0) return;
    shared.server = null;
    await server.stop();
  };
}
