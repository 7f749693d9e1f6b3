import { afterAll, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest';

import chat from '../../api/chat.ts';
import relay from '../../api/cron/relay.ts';
import inquiry from '../../api/inquiry.ts';
import kick from '../../api/kick.ts';
import overview from '../../api/platform/event-bus/index.ts';
import metrics from '../../api/platform/metrics.ts';
import webhooks from '../../api/webhooks/[provider].ts';
import document from '../../docs/openapi.json' with { type: 'json' };
import { repair } from '../../lib/bus/deliveries/operations/repair.ts';
import { duties } from '../../lib/edge/cron/duties.ts';
import { runCron } from '../../lib/edge/cron/run-cron.ts';
import { connect } from '../../lib/platform/db/connect.ts';
import type { Endpoint } from '../../lib/platform/http/guarded-endpoint.ts';
import { AnswerJudge } from '../support/answer-judge.ts';
import { rows } from '../support/bus.ts';
import { exchangesOf, operationsOf } from '../support/contract.ts';
import type { DocumentedOperation, OpenApiDocument } from '../support/contract.ts';
import { createDatabase } from '../support/postgres.ts';

/** What can't be asked of a server that is set up and answers within a minute. */
const openApi = document as unknown as OpenApiDocument;
const operationOf = (id: string) => operationsOf(openApi).find(({ operationId }) => operationId === id)!;
const judge = new AnswerJudge(openApi);

beforeEach(() => void vi.spyOn(process.stdout, 'write').mockReturnValue(true));
afterAll(() => void vi.unstubAllEnvs());

test('a run of the cron reports as described', async () => {
  const { db, close } = await connect(await createDatabase(inject('postgresUrl')));
  const response = await runCron({ db, subscribers: [], duties, budgetMs: 0 });
  await close();
  const { schema } = operationOf('runRelay').responses[200]!.content!['application/json']!;
  expect(judge.faultsOf(schema, await response.json())).toEqual([]);
});

test('a repair reports as described', async () => {
  const { db, close } = await connect(await createDatabase(inject('postgresUrl')));
  const [{ id }] = (await rows<{ id: string }>(
    db,
    `insert into set_aside (at, kind, topic, found) values (now(), 'unfit_marker', 'payment.captured', '{}')
     returning id::text`,
  )) as [{ id: string }];
  const repaired = await repair(db, { id, by: 'kari', reason: 'Case 4411.' });
  await close();
  const { schema } = operationOf('repair').responses[200]!.content!['application/json']!;
  const { outcome, topic, eventId } = repaired;
  expect([judge.faultsOf(schema, { outcome, topic, eventId }), outcome]).toEqual([[], 'dismissed']);
});

describe('where nothing is configured', () => {
  // The environment is read once, by whichever is asked first.
  beforeAll(() => {
    for (const variable of UNSET) vi.stubEnv(variable, undefined);
    vi.stubEnv('VERCEL', '1');
  });

  test.each<[id: string, endpoint: Endpoint]>([
    ['chat', chat],
    ['sendInquiry', inquiry],
    ['receiveWebhook', webhooks],
    ['runRelay', relay],
    ['kickRelay', kick],
    ['readOverview', overview],
    ['readMetrics', metrics],
  ])('%s answers 503 as described', async (id, endpoint) => {
    const operation = operationOf(id);
    const { path, json } = firstExampleOf(operation);
    const response = await endpoint.fetch(
      new Request(`https://postbud.example${path}`, {
        method: operation.method,
        headers: { 'content-type': 'application/json', authorization: 'Bearer of.no.use' },
        ...(json !== undefined && { body: JSON.stringify(json) }),
      }),
    );
    const { faults } = await judge.judge(operation, response);
    expect([response.status, faults]).toEqual([503, []]);
  });
});

const UNSET = [
  'ANTHROPIC_API_KEY',
  'SENDGRID_API_KEY',
  'CRON_SECRET',
  'OPERATOR_JWT_SECRET',
  'OPERATOR_JWKS_URL',
  'WEBHOOK_IDENTITYPROVIDER_SECRET',
  'CORS_ORIGINS',
  'UPSTASH_REDIS_REST_URL',
  'UPSTASH_REDIS_REST_TOKEN',
];

function firstExampleOf(operation: DocumentedOperation) {
  const { path, parameters = [], requestBody } = operation;
  const { name } = exchangesOf(operation)[0]!;
  const filled = parameters.reduce(
    (at, { name: parameter, examples }) => at.replace(`{${parameter}}`, String(examples?.[name]?.value)),
    path,
  );
  return { path: filled, json: requestBody?.content['application/json']?.examples?.[name]?.value };
}
