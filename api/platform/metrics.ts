import { endpoint } from '../../lib/http/endpoint.ts';
import { metricsFor } from '../../lib/operators/metrics/read.ts';
import { metricsRoute } from '../../lib/operators/metrics/route.ts';
import { config, database, subscribers } from '../../lib/postbud.ts';

export default endpoint(metricsRoute, {
  handle: (request) => metricsFor(request, config().operators, { database, subscribers }),
});
