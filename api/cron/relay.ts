import { alertDuty, duties, outageDuty } from '../../lib/cron/duties.ts';
import { beat } from '../../lib/alerts/heartbeat.ts';
import { reconciling } from '../../lib/cron/reconciling.ts';
import { cronRoute } from '../../lib/cron/route.ts';
import { requireCronSecret, requireRelays, runCron } from '../../lib/cron/run-cron.ts';
import { endpoint } from '../../lib/http/endpoint.ts';
import { CRON_LIFE_MS } from '../../lib/lifetime.ts';
import { config, database, handlersUntil, subscribers } from '../../lib/postbud.ts';

export default endpoint(cronRoute, {
  lifeMs: CRON_LIFE_MS,
  handle: async (request) => {
    requireCronSecret(request, config().cronSecret);
    requireRelays(config().relays);
    return await runCron({
      db: await database(),
      subscribers: subscribers(),
      duties: [...duties, outageDuty(subscribers), alertDuty(() => config().alerts)],
      work: [reconciling(() => config().reconciliations)],
      heartbeat: async () => await beat(config().alerts),
      handlersUntil: handlersUntil(),
      isLogged: true,
    });
  },
});
