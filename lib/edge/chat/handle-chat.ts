import type { Config } from '../../platform/config.ts';
import { Problem } from '../../platform/http/problem.ts';
import type { Budgeted } from '../../platform/http/visit.ts';
import { SECOND } from '../../platform/time.ts';
import { answerWhole } from './answer.ts';
import { bytesOf, TEXTS_LIMIT_BYTES } from './chat-request.ts';
import type { ChatRequest } from './chat-request.ts';
import { problemOf } from './failure.ts';
import { ModelCall } from './model-call.ts';
import type { ChatOutcome, ModelQuestion } from './model-call.ts';
import { answerStreaming, eventStream } from './stream.ts';
import type { AnswerStream } from './stream.ts';
import { UI_STREAM_HEADER, uiMessageStream } from './ui-stream.ts';

export interface Chat {
  readonly request: Request;
  /** In the log's line about the call. */
  readonly requestId: string;
  readonly body: ChatRequest;
  readonly settings: Config['chat'];
  /** Counts one call against the daily budget of all visitors. @throws Problem 429 */
  readonly takeBudget: () => Promise<Budgeted>;
  /** Counts what became of the call. */
  readonly count: (outcome: ChatOutcome) => void;
  /** Keeps the function alive until the promise settles, also when its caller hangs up. */
  readonly waitUntil: (work: Promise<unknown>) => void;
  /** Twenty seconds unless given. */
  readonly deadlineMs?: number;
}

/** Shorter than the platform's limit: a function that is killed answers nothing. */
const DEADLINE_MS = 20 * SECOND;

/**
 * Asks the language model and answers with its whole answer, or streams it to a caller that accepts
 * `text/event-stream`, and to `useChat` of the AI SDK in its own protocol.
 *
 * The deadline covers everything, and a caller that hangs up closes the provider's connection. Every call leaves one
 * log line, without content. A call that reached no model does not count against the budget.
 *
 * @throws Problem 413 `body_too_large`, 503 `chat_not_configured`, 429, then 502 `provider_…`, without the provider's
 *   words.
 */
export async function handleChat(chat: Chat): Promise<Response> {
  requireAffordable(chat.body);
  const settings = requireKey(chat.settings);
  const budgeted = await chat.takeBudget();
  const { request, requestId, body, count, deadlineMs = DEADLINE_MS } = chat;
  const call = ModelCall.begin({
    requestId,
    body,
    settings,
    deadlineMs,
    callerSignal: request.signal,
    count,
  });
  const answering = askWithin(budgeted, call, chat);
  // The platform ends this function when its caller hangs up, and the line and the budget come after that.
  chat.waitUntil(Promise.allSettled([answering, call.ended]));
  return await answering;
}

function requireAffordable(body: ChatRequest): void {
  const bytes = bytesOf(body);
  if (bytes <= TEXTS_LIMIT_BYTES) return;
  throw new Problem('body_too_large', {
    detail: `system and the messages are ${bytes} bytes long together, and ${TEXTS_LIMIT_BYTES} are allowed. Leave out the oldest messages.`,
  });
}

/** The owner must set a key. */
const NOT_CONFIGURED_RETRY_SECONDS = 3600;

/** The SDK would send the request even with a blank key. */
function requireKey(settings: Config['chat']): ModelQuestion['settings'] {
  const apiKey = settings.apiKey?.trim();
  if (apiKey) return { ...settings, apiKey };
  throw new Problem('chat_not_configured', { retryAfterSeconds: NOT_CONFIGURED_RETRY_SECONDS });
}

/** The stream that a caller can read; undefined for JSON. */
function streamOf(request: Request, { isUi }: ChatRequest): AnswerStream | undefined {
  if (isUi || request.headers.get(UI_STREAM_HEADER) === 'v1') return uiMessageStream;
  return wantsStream(request) ? eventStream : undefined;
}

/** A caller that accepts anything may not be able to read events, so it gets JSON. */
function wantsStream({ headers }: Request): boolean {
  const accepted = (headers.get('accept') ?? '').toLowerCase().split(',');
  return accepted.some((range) => {
    const [type, ...parameters] = range.split(';').map((part) => part.trim());
    return type === 'text/event-stream' && !parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter));
  });
}

async function askWithin(
  budgeted: Budgeted,
  call: ModelCall,
  { request, requestId, body }: Chat,
): Promise<Response> {
  try {
    return await ask(call, requestId, streamOf(request, body));
  } finally {
    if (call.hasReachedModel) budgeted.spend();
    else await budgeted.giveBack();
  }
}

async function ask(call: ModelCall, requestId: string, stream: AnswerStream | undefined): Promise<Response> {
  try {
    return stream ? await answerStreaming(call, requestId, stream) : await answerWhole(call);
  } catch (error) {
    const failure = call.fail(error);
    if (failure) throw problemOf(failure);
    return new Response(null, { status: CLIENT_CLOSED_REQUEST });
  }
}

/** nginx's status for a caller that has hung up. Only the log sees it. */
const CLIENT_CLOSED_REQUEST = 499;
