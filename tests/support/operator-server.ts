import { serve } from 'srvx';

import type { AttachedSubscriber } from '../../lib/bus/subscribers/subscriber.ts';
import type { Database } from '../../lib/platform/db/connect.ts';
import { operatorFunction } from './operator-function.ts';
import { operatorSettings } from './operator-token.ts';

/** The function of operators, listening on a port. */
export interface OperatorServer {
  readonly url: string;
  /** Answers in place of the function; undefined leaves a request to it. */
  answerInstead: ((request: Request) => Promise<Response | undefined>) | null;
  readonly close: () => Promise<void>;
}

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
  const listening = serve({
    port,
    hostname: '127.0.0.1',
    silent: true,
    fetch: async (request) => (await server.answerInstead?.(request)) ?? (await operators.fetch(request)),
  });
  const server: OperatorServer = {
    url: '',
    answerInstead: null,
    close: () => listening.close(true),
  };
  await listening.ready();
  return Object.assign(server, { url: (listening.url ?? '').replace(/\/$/, '') });
}
