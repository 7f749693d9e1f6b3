import type { TestProject } from 'vitest/node';

import { startPostgres } from './postgres.ts';

declare module 'vitest' {
  interface ProvidedContext {
    readonly postgresUrl: string;
  }
}

/** One Postgres server for the whole run; each test file has a database of its own in it. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await startPostgres();
  project.provide('postgresUrl', server.url);
  return server.stop;
}
