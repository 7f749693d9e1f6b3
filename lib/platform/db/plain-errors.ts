import type { PgSession } from 'drizzle-orm/pg-core';

/**
 * Has a session of Drizzle throw the driver's errors, as `run` does. Drizzle would wrap each in one of its own, which has no
 * code and quotes the parameters.
 */
export function withPlainErrors<Session extends Pick<PgSession, 'prepareQuery'>>(session: Session): Session {
  const prepare = session.prepareQuery.bind(session);
  const queryWithCache = async (_text: string, _values: unknown[], query: () => Promise<unknown>) => {
    try {
      return await query();
    } catch (error) {
      // The driver's leads to the socket that the answer came from.
      if (error instanceof Error) Error.captureStackTrace(error);
      throw error;
    }
  };
  const prepareQuery: typeof prepare = (...asked) => Object.assign(prepare(...asked), { queryWithCache });
  return Object.assign(session, { prepareQuery });
}
