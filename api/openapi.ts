import { endpoint } from '../lib/platform/http/endpoint.ts';
import { answerOpenApi } from '../lib/platform/http/openapi/answer-openapi.ts';
import { openApiRoute } from '../lib/platform/http/openapi/route.ts';

export default endpoint(openApiRoute, { handle: async (request) => answerOpenApi(request) });
