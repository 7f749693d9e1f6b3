import { randomBytes } from 'node:crypto';

import pg from 'pg';

import { runProgram } from './local-server.ts';

/** A role of the test server that may connect, and has no right on anything. */
export interface Role {
  readonly name: string;
  /** Connects as this role to the database that it was made for. */
  readonly url: string;
  /** Drops it. */
  readonly drop: () => Promise<void>;
}

/** Makes a role. Roles are those of the whole server, so its name ends in letters of its own. */
export async function createRole(databaseUrl: string, prefix: string): Promise<Role> {
  const name = `${prefix}_${randomBytes(4).toString('hex')}`;
  await asOwner(databaseUrl, `create role ${name} login`);
  const url = new URL(databaseUrl);
  url.username = name;
  return {
    name,
    url: url.href,
    drop: () => asOwner(databaseUrl, `drop owned by ${name} cascade; drop role ${name}`),
  };
}

/** Runs `npm run grant`. @returns its exit code and what it wrote. */
export async function grant(databaseUrl: string, ...args: string[]) {
  return await runProgram('dev/grant.ts', { DATABASE_URL: databaseUrl }, args);
}

async function asOwner(databaseUrl: string, statement: string): Promise<void> {
  const client = new pg.Client(databaseUrl);
  await client.connect();
  await client.query(statement);
  await client.end();
}
