import { waitUntil } from '@vercel/functions';

import { config, perVisitor } from '../lib/components/postbud.ts';
import { chatLimits } from '../lib/edge/chat/chat-limits.ts';
import { handleChat } from '../lib/edge/chat/handle-chat.ts';
import { chatRoute } from '../lib/edge/chat/route.ts';
import { endpoint } from '../lib/platform/http/endpoint.ts';

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
      takeBudget: () => visit.takeBudget('chat', config().rates.chatDailyBudget),
    }),
});
