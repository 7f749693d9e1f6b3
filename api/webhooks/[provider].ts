import { endpoint } from '../../lib/http/endpoint.ts';
import { config, database } from '../../lib/postbud.ts';
import { receiveWebhook } from '../../lib/webhooks/receive.ts';
import { Rejections } from '../../lib/webhooks/rejections.ts';
import { webhookRoute } from '../../lib/webhooks/route.ts';

const rejections = new Rejections(database);

export default endpoint(webhookRoute, {
  handle: async (request, { requestId }) =>
    Response.json(
      await receiveWebhook({ request, requestId, settings: config().webhooks, database, rejections }),
    ),
});
