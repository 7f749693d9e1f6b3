import { endpoint } from '../../../lib/http/endpoint.ts';
import { handleReplay } from '../../../lib/operators/handle-replay.ts';
import { config, database, kick } from '../../../lib/postbud.ts';

export default endpoint({
  methods: ['POST'],
  handle: async (request) =>
    Response.json(await handleReplay({ request, settings: config().operators, database, kick })),
});
