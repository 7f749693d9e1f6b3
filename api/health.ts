import { config } from '../lib/components/postbud.ts';
import { healthOf } from '../lib/edge/health/health.ts';
import { healthRoute } from '../lib/edge/health/route.ts';
import { endpoint } from '../lib/platform/http/endpoint.ts';

export default endpoint(healthRoute, { handle: async () => Response.json(healthOf(config())) });
