import { waitUntil } from '@vercel/functions';

import { config, database, hasDatabase, perVisitor } from '../lib/components/postbud.ts';
import { countOutcomes } from '../lib/edge/counts.ts';
import { createOnce } from '../lib/edge/inquiry/create-once.ts';
import { problemForVisitor } from '../lib/edge/inquiry/form-answers.ts';
import { handleInquiry } from '../lib/edge/inquiry/handle-inquiry.ts';
import { inquiryLimits } from '../lib/edge/inquiry/inquiry-limits.ts';
import { inquiryRoute } from '../lib/edge/inquiry/route.ts';
import { endpoint } from '../lib/platform/http/endpoint.ts';

const count = countOutcomes('inquiry', () => (hasDatabase() ? database : undefined));
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
      count,
      takeBudget: () =>
        visit.takeBudget({ name: 'inquiry', perDay: config().rates.inquiryDailyBudget, onReached: count }),
      mail: config().mail,
      cors: config().cors,
      database: hasDatabase() ? database : undefined,
    }),
});
