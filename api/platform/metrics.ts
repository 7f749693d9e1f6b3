import { readMetrics } from '../../lib/api-description/operations/metrics.ts';
import { endpoint } from '../../lib/http/endpoint.ts';
import { metricsFor } from '../../lib/operators/metrics/read.ts';
import { config, database, subscribers } from '../../lib/postbud.ts';

export default endpoint(readMetrics, {
  handle: (request) => metricsFor(request, config().operators, { database, subscribers }),
});
