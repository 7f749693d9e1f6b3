import { Redis } from '@upstash/redis';

import { handlersUntil } from '../../platform/lifetime.ts';
import { log } from '../../platform/log.ts';
import { MailNotSent } from '../../platform/mail/send-mail.ts';
import { SECOND, sleep } from '../../platform/time.ts';
import { KeyReused, REMEMBERED_MS } from './once.ts';
import type { Action, Once } from './once.ts';

/** Longer than a mail with its second attempt takes: an older claim belongs to a process that died. */
const CLAIM_SECONDS = 30;

/** How often to check on another process. */
const POLL_MS = 250;

/** After this time an inquiry is sent without Redis: a duplicate is better than a lost inquiry. */
const REDIS_TIMEOUT_MS = 800;

/** Remembers in Redis, across processes. If Redis does not answer, the action runs. */
export class OnceAcrossProcesses implements Once {
  readonly #redis: Redis;

  constructor(settings: { readonly url: string; readonly token: string }) {
    this.#redis = new Redis({
      ...settings,
      signal: () => AbortSignal.timeout(REDIS_TIMEOUT_MS),
      retry: false,
      enableAutoPipelining: false,
      enableTelemetry: false,
      responseEncoding: false,
    });
  }

  async once(action: Action): Promise<{ readonly isReplay: boolean }> {
    const claim = await this.#claim(action);
    if (claim === 'done') return { isReplay: true };
    try {
      await action.run();
    } catch (error) {
      if (claim === 'mine') await orNothing(this.#redis.del(nameOf(action)));
      throw error;
    }
    // Also after an unknown claim, which Redis may have made without its answer getting here.
    const remembered = `done:${action.fingerprint}`;
    await orNothing(this.#redis.set(nameOf(action), remembered, { ex: REMEMBERED_MS / SECOND }));
    return { isReplay: false };
  }

  /** @throws MailNotSent when another process still sends the mail at the end of this function's life. */
  async #claim(action: Action): Promise<'mine' | 'done' | 'unknown'> {
    const patientUntil = handlersUntil();
    while (Date.now() < patientUntil) {
      const state = await orNothing(this.#claimOnce(action));
      if (state !== 'doing') return state ?? 'unknown';
      await sleep(POLL_MS);
    }
    throw new MailNotSent('email_timeout', {});
  }

  async #claimOnce(action: Action): Promise<'mine' | 'done' | 'doing'> {
    const doing = `doing:${action.fingerprint}`;
    let found: unknown = null;
    // A second time if the other process released its claim between the two commands.
    for (let looks = 0; found === null && looks < 2; looks++) {
      const set = await this.#redis.set(nameOf(action), doing, { nx: true, ex: CLAIM_SECONDS });
      if (set === 'OK') return 'mine';
      found = await this.#redis.get(nameOf(action));
    }
    const [, state, fingerprint] = REMEMBERED.exec(String(found)) ?? [];
    if (state === undefined) throw new UnusableAnswer();
    if (fingerprint !== action.fingerprint) throw new KeyReused();
    return state === 'done' ? 'done' : 'doing';
  }
}

const REMEMBERED = /^(doing|done):([0-9a-f]{64})$/;

class UnusableAnswer extends Error {
  override readonly name = 'UnusableAnswer';
}

function nameOf({ key }: Action): string {
  return `postbud:inquiry:${key}`;
}

/** Undefined when Redis does not answer, or not as it should. */
async function orNothing<Value>(answer: Promise<Value>): Promise<Value | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof KeyReused) throw error;
    // The client's error message repeats the command.
    log('warn', 'Redis did not answer as it should: an inquiry may be sent twice', {
      error: error instanceof Error ? error.name : typeof error,
    });
    return undefined;
  }
}
