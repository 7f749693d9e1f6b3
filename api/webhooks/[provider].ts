import { database } from '../../lib/components/database.ts';
import { config } from '../../lib/components/postbud.ts';
import { receiveWebhook } from '../../lib/edge/webhooks/receive.ts';
import { Rejections } from '../../lib/edge/webhooks/rejections.ts';
import { webhookRoute } from '../../lib/edge/webhooks/route.ts';
import { endpoint } from '../../lib/platform/http/endpoint.ts';

const rejections = new Rejections(database);

export default endpoint(webhookRoute, {
  handle: async (request, { requestId }) =>
    Response.json(
      await receiveWebhook({ request, requestId, settings: config().webhooks, database, rejections }),
    ),
});
