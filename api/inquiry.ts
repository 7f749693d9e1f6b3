import { waitUntil } from '@vercel/functions';

import { endpoint } from '../lib/http/endpoint.ts';
import { createOnce } from '../lib/inquiry/create-once.ts';
import { problemForVisitor } from '../lib/inquiry/form-answers.ts';
import { handleInquiry } from '../lib/inquiry/handle-inquiry.ts';
import { inquiryLimits } from '../lib/inquiry/inquiry-limits.ts';
import { INQUIRY_LIMIT_BYTES, inquiryRequest } from '../lib/inquiry/inquiry-request.ts';
import { config, database, hasDatabase, limiter, perVisitor } from '../lib/postbud.ts';
import { takeBudget } from '../lib/rate-limit/answers.ts';

const sent = createOnce(() => config().redis);

const inquiry = endpoint({
  methods: ['POST'],
  route: '/api/inquiry',
  isAnonymous: true,
  cors: () => config().cors,
  body: { schema: inquiryRequest, limitBytes: INQUIRY_LIMIT_BYTES, forms: true },
  visitorLimits: () => perVisitor(inquiryLimits(config().rates)),
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

export default {
  fetch: async (request: Request) => await problemForVisitor(request, await inquiry.fetch(request)),
};
