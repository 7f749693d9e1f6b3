import { endpoint } from '../../lib/http/endpoint.ts';
import { config, database, subscribers } from '../../lib/postbud.ts';
import { requireCronSecret, runCron } from '../../lib/relay/cron.ts';
import { settleSetAside } from '../../lib/subscribers/payments/set-aside.ts';
import { emitSurges } from '../../lib/webhooks/surges.ts';

export default endpoint({
  methods: ['GET'],
  route: '/api/cron/relay',
  handle: async (request) => {
    requireCronSecret(request, config().cronSecret);
    return await runCron({
      db: await database(),
      subscribers: subscribers(),
      alsoDue: (db) => Promise.all([emitSurges(db), settleSetAside(db)]),
      isLogged: true,
    });
  },
});
