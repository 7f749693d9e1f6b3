import { database, kick } from '../lib/components/database.ts';
import { config, limiter } from '../lib/components/postbud.ts';
import { kickRoute } from '../lib/edge/cron/route.ts';
import { takeKick } from '../lib/edge/cron/take-kick.ts';
import { endpoint } from '../lib/platform/http/endpoint.ts';
import { RELAY_LIFE_MS } from '../lib/platform/lifetime.ts';

export default endpoint(kickRoute, {
  lifeMs: RELAY_LIFE_MS,
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
