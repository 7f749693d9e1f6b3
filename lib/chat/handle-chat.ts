import type { Config } from '../config.ts';
import { Problem } from '../http/problem.ts';
import type { Budgeted } from '../http/rate-limit.ts';
import { SECOND } from '../time.ts';
import { answerWhole } from './answer.ts';
import type { ChatRequest } from './chat-request.ts';
import { problemOf } from './failure.ts';
import { ModelCall } from './model-call.ts';
import type { ModelQuestion } from './model-call.ts';
import { answerStreaming } from './stream.ts';

export interface Chat {
  readonly request: Request;
  /** In the log's line about the call. */
  readonly requestId: string;
  readonly body: ChatRequest;
  readonly settings: Config['chat'];
  /** Takes one call out of what all visitors have together for the day. @throws Problem 429 */
  readonly takeBudget: () => Promise<Budgeted>;
  /** Twenty seconds unless given. */
  readonly deadlineMs?: number;
}

/** Longer than a visitor waits, shorter than the platform: a function that is killed answers nothing. */
const DEADLINE_MS = 20 * SECOND;

/**
 * Asks the language model and answers with what it says, whole or, if the caller accepts `text/event-stream`, as it
 * is written.
 *
 * The deadline is over all of it, and a caller that hangs up closes the provider's connection. Every call that was
 * made leaves one line in the log, without content. One that has reached no model is given back to the day's budget.
 *
 * @throws Problem 503 `chat_not_configured`, 429, then 502 `provider_…`, which says nothing that the provider has said.
 */
export async function handleChat(chat: Chat): Promise<Response> {
  const settings = requireKey(chat.settings);
  const budgeted = await chat.takeBudget();
  const { request, requestId, body, deadlineMs = DEADLINE_MS } = chat;
  const call = new ModelCall({ requestId, body, settings, deadlineMs, callerSignal: request.signal });
  try {
    return await ask(call, requestId, wantsStream(request));
  } finally {
    if (!call.hasReachedModel) await budgeted.giveBack();
  }
}

/** A key has to be set by hand. */
const NOT_CONFIGURED_RETRY_SECONDS = 3600;

/** With a blank key the SDK would still send the request. */
function requireKey(settings: Config['chat']): ModelQuestion['settings'] {
  const apiKey = settings.apiKey?.trim();
  if (apiKey) return { ...settings, apiKey };
  throw new Problem('chat_not_configured', { retryAfterSeconds: NOT_CONFIGURED_RETRY_SECONDS });
}

/** Not for a caller that takes anything: it is not known to read events. */
function wantsStream({ headers }: Request): boolean {
  const accepted = (headers.get('accept') ?? '').toLowerCase().split(',');
  return accepted.some((range) => {
    const [type, ...parameters] = range.split(';').map((part) => part.trim());
    return type === 'text/event-stream' && !parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter));
  });
}

async function ask(call: ModelCall, requestId: string, isStream: boolean): Promise<Response> {
  try {
    return isStream ? await answerStreaming(call, requestId) : await answerWhole(call);
  } catch (error) {
    const failure = call.fail(error);
    if (failure) throw problemOf(failure);
    return new Response(null, { status: CLIENT_CLOSED_REQUEST });
  }
}

/** What nginx logs for a caller that has hung up. Nobody reads the answer; the log does. */
const CLIENT_CLOSED_REQUEST = 499;
