import { answerOpenApi } from '../lib/http/openapi/answer-openapi.ts';
import { endpoint } from '../lib/http/endpoint.ts';
import { openApiRoute } from '../lib/http/openapi/route.ts';

export default endpoint(openApiRoute, { handle: async (request) => answerOpenApi(request) });
