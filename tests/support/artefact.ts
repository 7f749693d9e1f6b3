import { inject } from 'vitest';

import { startRedisRest } from '../../dev/stand-ins/redis-rest.ts';
import { createDatabase } from './postgres.ts';
import { redisServerPath, startRedis } from './redis.ts';

/** Whether the suites that go over the wire run against the output of the last build; see `npm run test:artefact`. */
export const isArtefact = process.env['POSTBUD_ARTEFACT'] !== undefined;

const databases = new Map<string, string>();

/** What the artefact needs besides the variables of a test. */
export interface Surroundings {
  readonly variables: Readonly<Record<string, string>>;
  readonly close: () => Promise<unknown>;
}

/**
 * Gives the artefact a database on the real Postgres, the same one for the same `DATA_DIR`, and a Redis of its own behind
 * the stand-in for Upstash, where this machine has a Redis.
 */
export async function surroundingsOf(variables: Readonly<Record<string, string>>): Promise<Surroundings> {
  const { DATA_DIR = '' } = variables;
  const url =
    variables['DATABASE_URL'] ?? databases.get(DATA_DIR) ?? (await createDatabase(inject('postgresUrl')));
  databases.set(DATA_DIR, url);
  const withDatabase = { ...variables, DATABASE_URL: url };
  if (redisServerPath === undefined) return { variables: withDatabase, close: async () => undefined };
  const redis = await startRedis();
  const rest = await startRedisRest(redis.port);
  return {
    variables: {
      ...withDatabase,
      UPSTASH_REDIS_REST_URL: rest.url,
      UPSTASH_REDIS_REST_TOKEN: rest.token,
    },
    close: () => Promise.all([rest.stop(), redis.stop()]),
  };
}
