import { chatLimits } from '../lib/chat/chat-limits.ts';
import { chatRequest } from '../lib/chat/chat-request.ts';
import { handleChat } from '../lib/chat/handle-chat.ts';
import { endpoint } from '../lib/http/endpoint.ts';
import { config, limiter, perVisitor } from '../lib/postbud.ts';
import { takeBudget } from '../lib/rate-limit/answers.ts';

export default endpoint({
  methods: ['POST'],
  route: '/api/chat',
  isAnonymous: true,
  cors: () => config().cors,
  body: { schema: chatRequest, limitBytes: 64 * 1024 },
  visitorLimits: () => perVisitor(chatLimits(config().rates)),
  handle: async (request, { requestId, body, visit }) =>
    await handleChat({
      request,
      requestId,
      body,
      settings: config().chat,
      takeBudget: () => takeBudget(limiter(), 'chat-budget', config().rates.chatDailyBudget, visit),
    }),
});
