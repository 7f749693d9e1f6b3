import { healthOf } from '../lib/health/health.ts';
import { endpoint } from '../lib/http/endpoint.ts';
import { config } from '../lib/postbud.ts';

export default endpoint({
  methods: ['GET'],
  cors: () => 'any',
  handle: async () => Response.json(healthOf(config)),
});
