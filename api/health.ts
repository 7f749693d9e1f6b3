import { healthOf } from '../lib/health/health.ts';
import { endpoint } from '../lib/http/endpoint.ts';
import { config } from '../lib/postbud.ts';

export default endpoint({
  methods: ['GET'],
  route: '/api/health',
  cors: () => 'any',
  handle: async () => Response.json(healthOf(config())),
});
