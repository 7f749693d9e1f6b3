import { waitUntil } from '@vercel/functions';

import { database } from '../lib/components/database.ts';
import { config, hasDatabase, perVisitor } from '../lib/components/postbud.ts';
import { countOutcomes } from '../lib/edge/counts.ts';
import { createOnce } from '../lib/edge/inquiry/create-once.ts';
import { problemForVisitor } from '../lib/edge/inquiry/form-answers.ts';
import { handleInquiry } from '../lib/edge/inquiry/handle-inquiry.ts';
import { inquiryLimits } from '../lib/edge/inquiry/inquiry-limits.ts';
import { inquiryRoute } from '../lib/edge/inquiry/route.ts';
import { TOKEN_NAME, verified } from '../lib/edge/turnstile.ts';
import { endpoint } from '../lib/platform/http/endpoint.ts';

const count = countOutcomes('inquiry', () => (hasDatabase() ? database : undefined));
const sent = createOnce(() => config().redis);

export default endpoint(inquiryRoute, {
  cors: () => config().cors,
  visitorLimits: () => perVisitor(inquiryLimits(config().rates)),
  problemAnswer: problemForVisitor,
  handle: async (request, { requestId, body: { [TOKEN_NAME]: field, ...body }, visitor, visit }) =>
    await handleInquiry({
      request,
      requestId,
      body,
      visitor,
      sent,
      waitUntil,
      count,
      takeBudget: async (name) => {
        const perDay = config().rates.inquiryDailyBudget;
        // No incident and no proof: those who are trapped are robots, and read nothing of it.
        if (name === 'inquiry-trap')
          return await visit.takeBudget({ name, perDay, onReached: () => undefined });
        return await verified(await visit.takeBudget({ name, perDay, onReached: count }), {
          config: config(),
          request,
          field,
          requestId,
          action: 'inquiry',
          count,
        }).catch(async (error: unknown) => {
          await visit.giveBackInvalid();
          throw error;
        });
      },
      mail: config().mail,
      cors: config().cors,
      database: hasDatabase() ? database : undefined,
    }),
});
