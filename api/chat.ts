import { waitUntil } from '@vercel/functions';

import { config, hasDatabase, perVisitor } from '../lib/components/postbud.ts';
import { chatLimits } from '../lib/edge/chat/chat-limits.ts';
import { handleChat } from '../lib/edge/chat/handle-chat.ts';
import { chatRoute } from '../lib/edge/chat/route.ts';
import { countOutcomes } from '../lib/edge/counts.ts';
import { verified } from '../lib/edge/turnstile.ts';
import { endpoint } from '../lib/platform/http/endpoint.ts';

// Not imported at the start, which comes before the first word; the counts come after the answer.
const database = async () => await (await import('../lib/components/database.ts')).database();
const count = countOutcomes('chat', () => (hasDatabase() ? database : undefined));

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
      count,
      takeBudget: async () =>
        await verified(
          await visit.takeBudget({ name: 'chat', perDay: config().rates.chatDailyBudget, onReached: count }),
          { config: config(), request, requestId, action: 'chat', count },
        ),
    }),
});
