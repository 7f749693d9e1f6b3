import { readdirSync, readFileSync } from 'node:fs';

import pg from 'pg';

import { createDatabase } from '../support/postgres.ts';

const folder = new URL('../../drizzle/log/', import.meta.url);

/** What the core's tables take the place of. */
const OLD = `
  drop table deliveries, lanes, leases, reserved_positions, home_lanes, backlog, throughput, halts, absences, awaiting_fan_out, events, journal
    cascade;
  -- By this table the surroundings are told to be the bus's.
  create table awaiting_fan_out ();`;

/** Makes a database with the core of release 2.0 in place of that of 1.1. @returns its URL. */
export async function createCore(serverUrl: string): Promise<string> {
  const url = await createDatabase(serverUrl);
  const client = new pg.Client(url);
  await client.connect();
  await client.query(OLD);
  await client.query(readFileSync(new URL('tables.sql', folder), 'utf8'));
  await client.query('set check_function_bodies = off');
  for (const file of readdirSync(folder))
    if (file !== 'tables.sql') await client.query(readFileSync(new URL(file, folder), 'utf8'));
  await client.end();
  return url;
}
