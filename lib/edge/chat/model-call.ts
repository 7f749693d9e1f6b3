import type * as Sdk from '@anthropic-ai/sdk';

import type { Config } from '../../platform/config.ts';
import { log } from '../../platform/log.ts';
import { SECOND, sleep } from '../../platform/time.ts';
import type { ChatRequest } from './chat-request.ts';
import { costUsd } from './cost.ts';
import type { TokenUse } from './cost.ts';
import { failureOf, mayHaveReachedModel } from './failure.ts';
import type { Failure, FailureCode } from './failure.ts';
import { GUARD } from './guard.ts';

/** A question to the language model, its caller and its deadline. */
export interface ModelQuestion {
  readonly requestId: string;
  /** The caller's: aborted when it hangs up. */
  readonly callerSignal: AbortSignal;
  readonly body: ChatRequest;
  readonly settings: Config['chat'] & { readonly apiKey: string };
  /** Time limit of the whole call: import, connection, headers, body and the second try. */
  readonly deadlineMs: number;
  /** Called once, when the call has ended. */
  readonly count: (outcome: ChatOutcome) => void;
}

/** What became of a call, for the log, the metrics and the incidents. */
export type ChatOutcome = 'answered' | 'cut_off' | 'refused' | 'aborted' | FailureCode;

/** One attempt to get an answer. The signal must end everything it waits for. */
type Attempt<Answer> = (
  messages: Sdk.Anthropic.Messages,
  params: Sdk.Anthropic.MessageCreateParamsNonStreaming,
  options: { readonly signal: AbortSignal },
) => Promise<Answer>;

/** Too short for a visitor to notice, long enough for a load balancer to pick another host. */
const RETRY_WAIT_MS = 200;

/**
 * One call to the language model, from the first try to the line in the log.
 *
 * It ends once, with `end` or `fail`; until then its deadline is running and the caller's abort closes the provider's
 * socket.
 */
export class ModelCall {
  /** The tokens that the provider has reported so far. */
  use: TokenUse | undefined;
  /** Fulfilled when the call has ended and its line is in the log. */
  readonly ended: Promise<void>;

  #settle: () => void = () => undefined;
  readonly #question: ModelQuestion;
  readonly #startedAt = performance.now();
  // Not `AbortSignal.any`: Node 20 may garbage-collect a timeout that only such a signal refers to.
  readonly #stop = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #stoppedBy: 'deadline' | 'caller' | undefined;
  #attempts = 0;
  #hasReachedModel = false;
  #sdk: typeof Sdk | undefined;

  private constructor(question: ModelQuestion) {
    this.#question = question;
    this.ended = new Promise((resolve) => (this.#settle = resolve));
  }

  /** Begins a call: from now on its deadline is running. */
  static begin(question: ModelQuestion): ModelCall {
    const call = new ModelCall(question);
    call.#timer = setTimeout(() => call.#stopFor('deadline'), question.deadlineMs);
    if (question.callerSignal.aborted) call.hangUp();
    else question.callerSignal.addEventListener('abort', call.hangUp, { once: true });
    return call;
  }

  /** Whether a model may have worked on the call. A call that reached none costs nothing. */
  get hasReachedModel(): boolean {
    return this.#hasReachedModel;
  }

  /** Ends the call on the caller's behalf. */
  readonly hangUp = (): void => this.#stopFor('caller');

  /**
   * Runs an attempt, and once more when the connection was reset or the provider is down, if there is time.
   *
   * @throws the error of the last attempt, for `fail`.
   */
  async attempt<Answer>(attempt: Attempt<Answer>): Promise<Answer> {
    try {
      return await this.#try(attempt);
    } catch (error) {
      const waitMs = this.#retryWaitMs(error);
      if (waitMs === undefined) throw error;
      await sleep(waitMs, this.#stop.signal);
      return await this.#try(attempt);
    }
  }

  async #try<Answer>(attempt: Attempt<Answer>): Promise<Answer> {
    // The import costs a quarter of a second of a cold start, which a 503 does not need.
    this.#sdk ??= await import('@anthropic-ai/sdk');
    this.#stop.signal.throwIfAborted();
    this.#attempts += 1;
    const { settings, body } = this.#question;
    const client = new this.#sdk.Anthropic({
      apiKey: settings.apiKey,
      authToken: null,
      baseURL: settings.baseUrl ?? null,
      // The SDK would obey any Retry-After, even an hour.
      maxRetries: 0,
      // Otherwise the SDK logs bodies that are not JSON, or all bodies if ANTHROPIC_LOG is set.
      logLevel: 'off',
      // A redirect would carry a visitor's text to an address that nobody configured.
      fetchOptions: { redirect: 'manual' },
    });
    try {
      const answer = await attempt(client.messages, paramsOf(settings, body), { signal: this.#stop.signal });
      this.#hasReachedModel = true;
      return answer;
    } catch (error) {
      this.#hasReachedModel ||= mayHaveReachedModel(this.#sdk, error);
      throw error;
    }
  }

  /** Retries only if as much time is left as the first attempt took: a provider that failed slowly stays slow. */
  #retryWaitMs(error: unknown): number | undefined {
    if (this.#stoppedBy || !this.#sdk) return undefined;
    const { isPassing, retryAfterSeconds = 0 } = failureOf(this.#sdk, error);
    if (!isPassing) return undefined;
    const waitMs = Math.max(RETRY_WAIT_MS, retryAfterSeconds * SECOND);
    const firstMs = performance.now() - this.#startedAt;
    return firstMs + waitMs + firstMs <= this.#question.deadlineMs ? waitMs : undefined;
  }

  /** Ends a call that got an answer. */
  end(outcome: 'answered' | 'cut_off' | 'refused'): void {
    this.#release();
    this.#report('info', outcome);
  }

  /**
   * Ends a call that has thrown.
   *
   * @returns undefined when the caller has hung up.
   * @throws the error itself when the SDK could not be loaded.
   */
  fail(error: unknown): Failure | undefined {
    this.#release();
    if (this.#stoppedBy === 'caller') {
      this.#report('info', 'aborted');
      return undefined;
    }
    const failure = this.#failureOf(error);
    // Only the owner can fix a rejection: a key, a model's name, a spending limit.
    this.#report(failure.code === 'provider_rejected' ? 'error' : 'warn', failure.code, failure, error);
    return failure;
  }

  #failureOf(error: unknown): Failure {
    if (this.#stoppedBy === 'deadline') return { code: 'provider_timeout', isPassing: false };
    if (!this.#sdk) throw error;
    return failureOf(this.#sdk, error);
  }

  #stopFor(reason: 'deadline' | 'caller'): void {
    if (this.#stop.signal.aborted) return;
    this.#stoppedBy = reason;
    this.#stop.abort();
  }

  #release(): void {
    clearTimeout(this.#timer);
    this.#settle();
    this.#question.callerSignal.removeEventListener('abort', this.hangUp);
  }

  /** Counts the call and writes its one log line: numbers and names, never content. */
  #report(level: 'info' | 'warn' | 'error', outcome: ChatOutcome, failure?: Failure, error?: unknown): void {
    const { requestId, settings, count } = this.#question;
    count(outcome);
    log(level, 'chat', {
      requestId,
      model: settings.model,
      inputTokens: this.use?.input ?? null,
      outputTokens: this.use?.output ?? null,
      costUsd: this.use ? costUsd(settings.model, this.use) : null,
      durationMs: Math.round(performance.now() - this.#startedAt),
      outcome,
      attempts: this.#attempts,
      providerStatus: failure?.providerStatus,
      providerRequestId: failure?.providerRequestId,
      error: error instanceof Error ? error.name : undefined,
    });
  }
}

function paramsOf(
  { model, maxTokens }: Config['chat'],
  { system, messages }: Pick<ChatRequest, 'system' | 'messages'>,
): Sdk.Anthropic.MessageCreateParamsNonStreaming {
  return {
    model,
    max_tokens: maxTokens,
    system: [
      { type: 'text', text: GUARD },
      { type: 'text', text: system },
    ],
    messages,
    // Thinking is on by default and would use up the tokens of a short answer. Larger models do not allow this setting.
    ...(model.startsWith('claude-haiku-') && { thinking: { type: 'disabled' } }),
  };
}
