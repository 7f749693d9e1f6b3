import type * as Sdk from '@anthropic-ai/sdk';

import type { Config } from '../config.ts';
import { log } from '../log.ts';
import { SECOND, sleep } from '../time.ts';
import type { ChatRequest } from './chat-request.ts';
import { costUsd } from './cost.ts';
import type { TokenUse } from './cost.ts';
import { failureOf, mayHaveReachedModel } from './failure.ts';
import type { Failure, FailureCode } from './failure.ts';
import { GUARD } from './guard.ts';

/** What is asked of the language model, on whose behalf, and for how long. */
export interface ModelQuestion {
  readonly requestId: string;
  /** The caller's: aborted when it hangs up. */
  readonly callerSignal: AbortSignal;
  readonly body: ChatRequest;
  readonly settings: Config['chat'] & { readonly apiKey: string };
  /** The clock's limit over everything: import, connection, headers, body and the second try. */
  readonly deadlineMs: number;
}

/** How a call ended, as the log has it. */
type Outcome = 'answered' | 'cut_off' | 'refused' | 'aborted' | FailureCode;

/** One try to get an answer. Whatever it waits for must be ended by the signal. */
type Attempt<Answer> = (
  messages: Sdk.Anthropic.Messages,
  params: Sdk.Anthropic.MessageCreateParamsNonStreaming,
  options: { readonly signal: AbortSignal },
) => Promise<Answer>;

/** Shorter than a visitor notices, long enough for a balancer to have looked elsewhere. */
const RETRY_WAIT_MS = 200;

/**
 * One call to the language model, from the first try to the line in the log.
 *
 * It ends once, with `end` or `fail`; until then its deadline is running and the caller's abort closes the provider's
 * socket.
 */
export class ModelCall {
  /** What the provider has reported so far. */
  use: TokenUse | undefined;

  readonly #question: ModelQuestion;
  readonly #startedAt = performance.now();
  // By hand, not `AbortSignal.any` of two: Node 20 may collect a timeout that only such a signal refers to.
  readonly #stop = new AbortController();
  readonly #timer: NodeJS.Timeout;
  #stoppedBy: 'deadline' | 'caller' | undefined;
  #attempts = 0;
  #hasReachedModel = false;
  #sdk: typeof Sdk | undefined;

  constructor(question: ModelQuestion) {
    this.#question = question;
    this.#timer = setTimeout(() => this.#stopFor('deadline'), question.deadlineMs);
    if (question.callerSignal.aborted) this.hangUp();
    else question.callerSignal.addEventListener('abort', this.hangUp, { once: true });
  }

  /** Whether a model may have worked on it: what has not reached one costs nothing. */
  get hasReachedModel(): boolean {
    return this.#hasReachedModel;
  }

  /** Ends the call on the caller's behalf. */
  readonly hangUp = (): void => this.#stopFor('caller');

  /**
   * Runs an attempt, and once more when the connection was reset or the provider is down, if there is time.
   *
   * @throws what the last attempt has thrown; `fail` knows what it means.
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
    // A quarter of a second of a cold start, which an endpoint that answers 503 does not need.
    this.#sdk ??= await import('@anthropic-ai/sdk');
    this.#stop.signal.throwIfAborted();
    this.#attempts += 1;
    const { settings, body } = this.#question;
    const client = new this.#sdk.Anthropic({
      apiKey: settings.apiKey,
      authToken: null,
      baseURL: settings.baseUrl ?? null,
      // It would sleep for as long as a Retry-After says, be it an hour.
      maxRetries: 0,
      // It logs bodies to the console otherwise, when they are not JSON or ANTHROPIC_LOG says so.
      logLevel: 'off',
      // Followed, a redirect would carry what a visitor wrote to an address that nobody configured.
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

  /** The second try is given as long as the first one took: a provider that failed slowly does not get faster. */
  #retryWaitMs(error: unknown): number | undefined {
    if (this.#stoppedBy || !this.#sdk) return undefined;
    const { isPassing, retryAfterSeconds = 0 } = failureOf(this.#sdk, error);
    if (!isPassing) return undefined;
    const waitMs = Math.max(RETRY_WAIT_MS, retryAfterSeconds * SECOND);
    const firstMs = performance.now() - this.#startedAt;
    return firstMs + waitMs + firstMs <= this.#question.deadlineMs ? waitMs : undefined;
  }

  /** Ends a call that has brought an answer. */
  end(outcome: 'answered' | 'cut_off' | 'refused'): void {
    this.#release();
    this.#log('info', outcome);
  }

  /**
   * Ends a call that has thrown.
   *
   * @returns undefined when the caller has hung up, so that nobody is there to be told.
   * @throws what was thrown when the SDK could not even be loaded.
   */
  fail(error: unknown): Failure | undefined {
    this.#release();
    if (this.#stoppedBy === 'caller') {
      this.#log('info', 'aborted');
      return undefined;
    }
    const failure = this.#failureOf(error);
    // Only the owner can mend what is rejected: a key, a model's name, a spending limit.
    this.#log(failure.code === 'provider_rejected' ? 'error' : 'warn', failure.code, failure, error);
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
    this.#question.callerSignal.removeEventListener('abort', this.hangUp);
  }

  /** The one line of a call: numbers and names, nothing that anybody has written. */
  #log(level: 'info' | 'warn' | 'error', outcome: Outcome, failure?: Failure, error?: unknown): void {
    const { requestId, settings } = this.#question;
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
  { system, messages }: ChatRequest,
): Sdk.Anthropic.MessageCreateParamsNonStreaming {
  return {
    model,
    max_tokens: maxTokens,
    system: [
      { type: 'text', text: GUARD },
      { type: 'text', text: system },
    ],
    messages,
    // On by default, it would use up the tokens of a short answer. Larger models refuse to have it switched off.
    ...(model.startsWith('claude-haiku-') && { thinking: { type: 'disabled' } }),
  };
}
