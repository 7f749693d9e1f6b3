import { waitUntil } from '@vercel/functions';

import { endpoint } from '../lib/http/endpoint.ts';
import { createOnce } from '../lib/inquiry/create-once.ts';
import { problemForVisitor } from '../lib/inquiry/form-answers.ts';
import { handleInquiry } from '../lib/inquiry/handle-inquiry.ts';
import { inquiryLimits } from '../lib/inquiry/inquiry-limits.ts';
import { inquiryRoute } from '../lib/inquiry/route.ts';
import { config, database, hasDatabase, limiter, perVisitor } from '../lib/postbud.ts';
import { takeBudget } from '../lib/http/rate-limit.ts';

const sent = createOnce(() => config().redis);

export default endpoint(inquiryRoute, {
  cors: () => config().cors,
  visitorLimits: () => perVisitor(inquiryLimits(config().rates)),
  problemAnswer: problemForVisitor,
  handle: async (request, { requestId, body, visitor, visit }) =>
    await handleInquiry({
      request,
      requestId,
      body,
      visitor,
      sent,
      waitUntil,
      takeBudget: () => takeBudget(limiter(), 'inquiry-budget', config().rates.inquiryDailyBudget, visit),
      mail: config().mail,
      cors: config().cors,
      database: hasDatabase() ? database : undefined,
    }),
});
