import { beat } from '../../lib/components/alerts/heartbeat.ts';
import { database, handlersUntil, relayedSubscribers, subscribers } from '../../lib/components/database.ts';
import { config } from '../../lib/components/postbud.ts';
import { alertDuty, duties, limitDuty } from '../../lib/edge/cron/duties.ts';
import { reconciling } from '../../lib/edge/cron/reconciling.ts';
import { cronRoute } from '../../lib/edge/cron/route.ts';
import { requireCronSecret, requireRelays, runCron } from '../../lib/edge/cron/run-cron.ts';
import { endpoint } from '../../lib/platform/http/endpoint.ts';
import { RELAY_LIFE_MS } from '../../lib/platform/lifetime.ts';

export default endpoint(cronRoute, {
  lifeMs: RELAY_LIFE_MS,
  handle: async (request) => {
    requireCronSecret(request, config().cronSecret);
    requireRelays(config().relays);
    return await runCron({
      db: await database(),
      subscribers: relayedSubscribers(),
      duties: [...duties, limitDuty(subscribers), alertDuty(() => config().alerts)],
      work: [reconciling(() => config().reconciliations)],
      heartbeat: async () => await beat(config().alerts),
      handlersUntil: handlersUntil(),
      isLogged: true,
    });
  },
});
