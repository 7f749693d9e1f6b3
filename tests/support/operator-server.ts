import { serve } from 'srvx';

import type { AttachedSubscriber } from '../../lib/bus/subscribers/subscriber.ts';
import { duties } from '../../lib/edge/cron/duties.ts';
import { cronRoute } from '../../lib/edge/cron/route.ts';
import { requireCronSecret, runCron } from '../../lib/edge/cron/run-cron.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { endpoint } from '../../lib/platform/http/endpoint.ts';
import { operatorFunction } from './operator-function.ts';
import { operatorSettings } from './operator-token.ts';

/** The functions of operators and of the cron, listening on a port. */
export interface OperatorServer {
  readonly url: string;
  /** Answers in place of the functions; undefined leaves a request to them. */
  answerInstead: ((request: Request) => Promise<Response | undefined>) | null;
  readonly close: () => Promise<void>;
}

export const CRON_SECRET = 'a-cron-secret-of-the-tests';

/** @param port a free one when left out. @param subscribers who is attached. */
export async function startOperatorServer(
  db: Database,
  subscribers: readonly AttachedSubscriber[],
  port = 0,
): Promise<OperatorServer> {
  const operators = operatorFunction({
    settings: operatorSettings,
    db: () => db,
    subscribers: () => subscribers,
  });
  const cron = endpoint(cronRoute, {
    handle: async (request) => {
      requireCronSecret(request, CRON_SECRET);
      return await runCron({ db, subscribers, duties, budgetMs: 500 });
    },
  });
  const functionAt = (path: string) => (path === '/api/cron/relay' ? cron : operators);
  const listening = serve({
    port,
    hostname: '127.0.0.1',
    silent: true,
    fetch: async (request) =>
      (await server.answerInstead?.(request)) ??
      (await functionAt(new URL(request.url).pathname).fetch(request)),
  });
  const server: OperatorServer = {
    url: '',
    answerInstead: null,
    close: () => listening.close(true),
  };
  await listening.ready();
  return Object.assign(server, { url: (listening.url ?? '').replace(/\/$/, '') });
}
