import { healthOf } from '../lib/health/health.ts';
import { healthRoute } from '../lib/health/route.ts';
import { endpoint } from '../lib/http/endpoint.ts';
import { config } from '../lib/postbud.ts';

export default endpoint(healthRoute, { handle: async () => Response.json(healthOf(config())) });
