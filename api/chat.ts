import { waitUntil } from '@vercel/functions';

import { chatLimits } from '../lib/chat/chat-limits.ts';
import { handleChat } from '../lib/chat/handle-chat.ts';
import { chatRoute } from '../lib/chat/route.ts';
import { endpoint } from '../lib/http/endpoint.ts';
import { config, limiter, perVisitor } from '../lib/postbud.ts';
import { takeBudget } from '../lib/http/rate-limit.ts';

export default endpoint(chatRoute, {
  cors: () => config().cors,
  visitorLimits: () => perVisitor(chatLimits(config().rates)),
  handle: async (request, { requestId, body, visit }) =>
    await handleChat({
      request,
      requestId,
      body,
      settings: config().chat,
      waitUntil,
      takeBudget: () => takeBudget(limiter(), 'chat-budget', config().rates.chatDailyBudget, visit),
    }),
});
