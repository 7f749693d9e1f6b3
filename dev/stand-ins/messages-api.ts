import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as readText } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';

import { z } from 'zod';

/** The failures of the stand-in. Numbers are statuses that the provider documents. */
const faults = [
  '400',
  '401',
  '403',
  '404',
  '413',
  '429',
  '500',
  '503',
  '529',
  'refusal',
  'refusal-late',
  'max-tokens',
  'hang',
  'stall',
  'error-stall',
  'reset',
  'reset-body',
  'html',
  'truncated',
  'no-text',
  'wrong-shape',
  'error-event',
] as const;
export type Fault = (typeof faults)[number];

export interface MessagesApi {
  readonly url: string;
  /** The last hundred requests, oldest first. */
  readonly requests: readonly ReceivedRequest[];
  /** Commits a fault from now on, for this many requests; without a fault, answers correctly from now on. */
  behave(fault?: Fault, times?: number): void;
  close(): Promise<void>;
}

interface ReceivedRequest {
  readonly headers: IncomingMessage['headers'];
  readonly body: unknown;
  /** Resolves when the caller's socket is closed, or the answer went out whole. */
  readonly ended: Promise<'answered' | 'closed'>;
}

interface MessagesApiOptions {
  /** By default any free port. */
  readonly port?: number;
  /** The messages of the provider's errors. */
  readonly words?: string;
}

/**
 * Stands in for the Anthropic API on this machine: `POST /v1/messages`, whole and as a stream.
 *
 * It refuses the requests that the provider documents as invalid, and fails on demand: by `behave`, or by a word
 * in the last message of the user such as `[[529]]` or `[[stall]]`.
 */
export async function startMessagesApi({
  port = 0,
  words = 'a fault of the stand-in, on demand',
}: MessagesApiOptions = {}): Promise<MessagesApi> {
  const requests: ReceivedRequest[] = [];
  let behaviour: { readonly fault: Fault; times: number } | undefined;

  const server = createServer((request, response) => {
    // Tests hang up in the middle of an answer.
    answer(request, response).catch(() => response.destroy());
  });

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = parseJson(await readText(request));
    requests.push({ headers: request.headers, body, ended: endOf(response) });
    if (requests.length > 100) requests.shift();
    const error = refusalOf(request, body);
    if (error) return sendError(response, ...error);
    const asked = message.parse(body);
    const fault = takeFault() ?? faultIn(asked);
    const reply = { asked, fault, words, response };
    if (fault && (await failBefore(fault, reply))) return;
    await (asked.stream ? sendStream(reply) : sendWhole(reply));
  }

  function takeFault(): Fault | undefined {
    if (!behaviour || behaviour.times <= 0) return undefined;
    behaviour.times -= 1;
    return behaviour.fault;
  }

  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    behave: (fault, times = Number.POSITIVE_INFINITY) => {
      behaviour = fault && { fault, times };
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function endOf(response: ServerResponse): Promise<'answered' | 'closed'> {
  return new Promise((resolve) => {
    response.once('close', () => resolve(response.writableFinished ? 'answered' : 'closed'));
  });
}

const text = z.object({ type: z.literal('text'), text: z.string() });
const content = z.union([z.string(), z.array(text).min(1)]);
type Content = z.output<typeof content>;

const message = z.object({
  model: z.string(),
  max_tokens: z.number().int().min(1),
  system: content.optional(),
  messages: z.array(z.object({ role: z.enum(['user', 'assistant', 'system']), content })),
  stream: z.boolean().optional(),
  thinking: z.object({ type: z.string() }).optional(),
});
type Asked = z.output<typeof message>;

type Refusal = readonly [status: number, type: string, message: string];

/** The provider's refusals, in its own words where known. */
function refusalOf(request: IncomingMessage, body: unknown): Refusal | undefined {
  if (request.method !== 'POST' || request.url !== '/v1/messages') {
    return [404, 'not_found_error', 'Not found'];
  }
  if (!/^Bearer \S/.test(request.headers.authorization ?? '')) {
    return [401, 'authentication_error', 'Authentication failed'];
  }
  if (!request.headers['anthropic-version']) return invalid('anthropic-version: header is required');
  const parsed = message.safeParse(body);
  if (!parsed.success) return invalid(parsed.error.issues[0]?.path.join('.') ?? 'body');
  for (const name of ['temperature', 'top_p', 'top_k']) {
    if (name in (body as object)) return invalid(`${name}: not supported by this model`);
  }
  return invalidContent(parsed.data);
}

function invalidContent({ messages, system, model, thinking }: Asked): Refusal | undefined {
  if (messages.length === 0) return invalid('messages: at least one message is required');
  const texts = [system ?? 'none', ...messages.map((message) => message.content)].flatMap(textsOf);
  if (!texts.every((text) => text.isWellFormed())) {
    return invalid('The request body is not valid JSON: no low surrogate in string');
  }
  if (texts.includes('')) return invalid('text content blocks must be non-empty');
  if (texts.some((text) => text.trim() === ''))
    return invalid('text content blocks must contain non-whitespace text');
  if (messages.at(-1)?.role !== 'user') {
    return invalid(
      'This model does not support assistant message prefill. The conversation must end with a user message.',
    );
  }
  const isHaiku = model.startsWith('claude-haiku-');
  if (thinking?.type === 'enabled' || (thinking?.type === 'disabled' && !isHaiku)) {
    return invalid(`thinking.type: ${thinking.type} is not supported by this model`);
  }
  return model.startsWith('claude-') ? undefined : [404, 'not_found_error', `model: ${model}`];
}

function invalid(text: string): Refusal {
  return [400, 'invalid_request_error', text];
}

function textsOf(content: Content): string[] {
  return typeof content === 'string' ? [content] : content.map(({ text }) => text);
}

function lastTextOf({ messages }: Asked): string {
  return textsOf(messages.at(-1)?.content ?? '').join('\n');
}

function faultIn(asked: Asked): Fault | undefined {
  const word = /\[\[([a-z0-9-]+)\]\]/i.exec(lastTextOf(asked))?.[1]?.toLowerCase();
  return faults.find((fault) => fault === word);
}

function sendError(
  response: ServerResponse,
  status: number,
  type: string,
  text: string,
  headers: Record<string, string> = {},
): void {
  const requestId = `req_${randomUUID().replaceAll('-', '')}`;
  response.writeHead(status, { 'content-type': 'application/json', 'request-id': requestId, ...headers });
  response.end(JSON.stringify({ type: 'error', error: { type, message: text }, request_id: requestId }));
}

interface Reply {
  readonly asked: Asked;
  readonly fault: Fault | undefined;
  readonly words: string;
  readonly response: ServerResponse;
}

const errorTypes: Readonly<Record<string, string>> = {
  '400': 'invalid_request_error',
  '401': 'authentication_error',
  '403': 'permission_error',
  '404': 'not_found_error',
  '413': 'request_too_large',
  '429': 'rate_limit_error',
  '500': 'api_error',
  '503': 'api_error',
  '529': 'overloaded_error',
};

/** Commits faults that replace the answer. @returns whether this fault is one of them. */
async function failBefore(fault: Fault, { response, words }: Reply): Promise<boolean> {
  const type = errorTypes[fault];
  if (type) {
    sendError(response, Number(fault), type, words, fault === '429' ? { 'retry-after': '7' } : {});
    return true;
  }
  switch (fault) {
    case 'hang':
      return true;
    case 'reset':
      response.socket?.resetAndDestroy();
      return true;
    case 'html':
      response.writeHead(200, { 'content-type': 'text/html' });
      response.end(`<!doctype html><title>Proxy</title><p>${words}</p>`);
      return true;
    case 'error-stall':
      response.writeHead(500, { 'content-type': 'application/json', 'content-length': '1000' });
      response.write(`{"type":"error","error":{"message":"${words}`);
      return true;
    default:
      return false;
  }
}

const CANNED = [
  [
    /pris|kost|price|cost|betal/i,
    'Prisen står på hvert lokale, og idrettslag i kommunen leier ofte gratis på hverdager.',
  ],
  [
    /book|leie|ledig|rent|free/i,
    'Finn lokalet, velg en ledig tid i kalenderen og send bookingen; du får svar på e-post.',
  ],
  [/avbestill|avlys|cancel/i, 'Du kan avbestille fra «Mine bookinger» inntil fristen som står på lokalet.'],
] as const;

const USUAL =
  'Kommunen har idrettshaller, møterom og kulturhus du kan booke på nett. Hva trenger du plass til?';

/** An answer similar to the model's. */
function cannedAnswer(asked: Asked): string {
  const topic = CANNED.find(([pattern]) => pattern.test(lastTextOf(asked)));
  return `${topic?.[1] ?? USUAL} (Svaret er ferdigskrevet: dette er en stand-in for språkmodellen, uten nøkkel. / A canned answer: this is a stand-in for the language model.)`;
}

/** Roughly two and a half characters a token. */
function tokensOf(text: string): number {
  return Math.ceil(text.length / 2.5);
}

function inputTokensOf({ system, messages }: Asked): number {
  return tokensOf([system ?? '', ...messages.map((message) => message.content)].flatMap(textsOf).join(' '));
}

function stopReasonOf(fault: Fault | undefined): string {
  if (fault === 'max-tokens') return 'max_tokens';
  return fault === 'refusal' || fault === 'refusal-late' ? 'refusal' : 'end_turn';
}

function headOf(asked: Asked, outputTokens: number) {
  return {
    id: `msg_${randomUUID().replaceAll('-', '')}`,
    type: 'message',
    role: 'assistant',
    model: asked.model,
    stop_sequence: null,
    usage: {
      input_tokens: inputTokensOf(asked),
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 0,
      output_tokens: outputTokens,
    },
  };
}

function answerWith(fault: Fault | undefined, asked: Asked): string {
  return fault === 'no-text' || fault === 'refusal' ? '' : cannedAnswer(asked);
}

async function sendWhole({ asked, fault, words, response }: Reply): Promise<void> {
  const said = answerWith(fault, asked);
  const blocks = said === '' ? [] : [{ type: 'text', text: said }];
  const thinking = asked.thinking ? [] : [{ type: 'thinking', thinking: words, signature: 'c3RhbmQtaW4=' }];
  const answer = {
    ...headOf(asked, tokensOf(said)),
    content: [...thinking, ...blocks],
    stop_reason: stopReasonOf(fault),
  };
  const json = JSON.stringify(fault === 'wrong-shape' ? { hello: words } : answer);
  if (fault === 'error-event') return sendError(response, 529, 'overloaded_error', words);
  response.writeHead(200, { 'content-type': 'application/json', 'request-id': `req_${answer.id}` });
  if (fault === 'truncated') return void response.end(json.slice(0, -20));
  if (fault !== 'stall' && fault !== 'reset-body') return void response.end(json);
  response.write(json.slice(0, -20));
  if (fault === 'reset-body') await resetSoon(response);
}

/** Flushes the written data first. */
async function resetSoon(response: ServerResponse): Promise<void> {
  await sleep(30);
  response.socket?.resetAndDestroy();
}

/** The pause between two words: short, but long enough to be seen. */
const PACE_MS = 10;

async function sendStream({ asked, fault, words, response }: Reply): Promise<void> {
  const send = (type: string, fields: object) =>
    response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...fields })}\n\n`);
  response.writeHead(200, { 'content-type': 'text/event-stream', 'request-id': `req_${randomUUID()}` });
  if (fault === 'wrong-shape') return void response.end(`event: message_start\ndata: "${words}"\n\n`);
  send('message_start', { message: { ...headOf(asked, 1), content: [], stop_reason: null } });
  send('ping', {});
  send('content_block_start', { index: 0, content_block: { type: 'text', text: '' } });
  const said = answerWith(fault, asked);
  for (const [index, word] of (said.match(/\S+\s*/g) ?? []).entries()) {
    if (response.destroyed) return;
    send('content_block_delta', { index: 0, delta: { type: 'text_delta', text: word } });
    if (index === 2) {
      if (fault === 'stall') return;
      if (fault === 'reset-body') return resetSoon(response);
      if (fault === 'truncated')
        return void response.end('event: content_block_delta\ndata: {"type":"content_bl\n\n');
      if (fault === 'error-event') {
        send('error', { error: { type: 'overloaded_error', message: words } });
        return void response.end();
      }
    }
    await sleep(PACE_MS);
  }
  send('content_block_stop', { index: 0 });
  send('message_delta', {
    delta: { stop_reason: stopReasonOf(fault), stop_sequence: null },
    usage: { output_tokens: tokensOf(said) },
  });
  send('message_stop', {});
  response.end();
}
