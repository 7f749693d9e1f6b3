import { database } from '../lib/components/database.ts';
import { config, limiter } from '../lib/components/postbud.ts';
import { eventsRoute } from '../lib/edge/events/route.ts';
import { takeEvents } from '../lib/edge/events/take-events.ts';
import { endpoint } from '../lib/platform/http/endpoint.ts';

export default endpoint(eventsRoute, {
  handle: async (request, { requestId }) =>
    Response.json(
      await takeEvents({ request, requestId, producers: config().remoteProducers, limiter, database }),
    ),
});
