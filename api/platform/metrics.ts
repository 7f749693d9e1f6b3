import { database, subscribers } from '../../lib/components/database.ts';
import { config } from '../../lib/components/postbud.ts';
import { metricsFor } from '../../lib/console/metrics/read.ts';
import { metricsRoute } from '../../lib/console/metrics/route.ts';
import { endpoint } from '../../lib/platform/http/endpoint.ts';

export default endpoint(metricsRoute, {
  handle: (request) => metricsFor(request, config().operators, { database, subscribers }),
});
