import { answerOpenApi } from '../lib/http/openapi/answer-openapi.ts';
import { endpoint } from '../lib/http/endpoint.ts';

export default endpoint({
  methods: ['GET'],
  route: '/api/openapi.json',
  cors: () => 'any',
  handle: async (request) => answerOpenApi(request),
});
