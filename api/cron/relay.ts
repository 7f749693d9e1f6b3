import { beat } from '../../lib/components/alerts/heartbeat.ts';
import {
  config,
  database,
  handlersUntil,
  kick,
  limiter,
  relayedSubscribers,
  subscribers,
} from '../../lib/components/postbud.ts';
import { alertDuty, duties, outageDuty } from '../../lib/edge/cron/duties.ts';
import { reconciling } from '../../lib/edge/cron/reconciling.ts';
import { cronRoute, kickRoute } from '../../lib/edge/cron/route.ts';
import { requireCronSecret, requireRelays, runCron } from '../../lib/edge/cron/run-cron.ts';
import { takeKick } from '../../lib/edge/cron/take-kick.ts';
import { endpoint } from '../../lib/platform/http/endpoint.ts';
import { CRON_LIFE_MS } from '../../lib/platform/lifetime.ts';

const cron = endpoint(cronRoute, {
  lifeMs: CRON_LIFE_MS,
  handle: async (request) => {
    requireCronSecret(request, config().cronSecret);
    requireRelays(config().relays);
    return await runCron({
      db: await database(),
      subscribers: relayedSubscribers(),
      duties: [...duties, outageDuty(subscribers), alertDuty(() => config().alerts)],
      work: [reconciling(() => config().reconciliations)],
      heartbeat: async () => await beat(config().alerts),
      handlersUntil: handlersUntil(),
      isLogged: true,
    });
  },
});

const kicked = endpoint(kickRoute, {
  lifeMs: CRON_LIFE_MS,
  handle: async (request) =>
    await takeKick({
      request,
      secrets: config().kickSecrets,
      relays: () => config().relays,
      limiter,
      database,
      kick,
    }),
});

// The cron's function also takes kicks: its process mostly runs already, with its connections open.
export default {
  fetch: async (request: Request): Promise<Response> =>
    await (new URL(request.url).pathname === kickRoute.path ? kicked : cron).fetch(request),
};
