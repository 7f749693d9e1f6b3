import type { DueListener, SentCommit } from '../../platform/db/commits.ts';
import { KICK_BUDGET_MS } from '../../platform/lifetime.ts';
import { Bell, Calls, EarlyLook, bellOf } from './bell.ts';
import { relay } from './relay.ts';
import type { RelayOptions } from './relay.ts';

export interface KickOptions extends Pick<RelayOptions, 'db' | 'subscribers' | 'isLogged'> {
  /** Keeps the host awake until the promise settles; on Vercel `waitUntil` of `@vercel/functions`. */
  readonly waitUntil: (work: Promise<void>) => void;
  /** Called when the database fails under the relay; the next kick, or the cron, tries again. */
  readonly onError: (error: unknown) => void;
  /** Called with each kick: when its handlers must have ended; see `RelayOptions`. */
  readonly handlersUntil?: () => number;
}

/**
 * Makes the listener of `onDue`, which is to be called after a commit that made deliveries due. It runs a relay at once,
 * so that an event does not wait for the cron's next look.
 *
 * Each kick has one budget from the moment it arrives, and the life of the function that it arrives in. While the relay
 * of an earlier kick looks for work, the kick rings its bell, and one of its loops looks. When that relay stops looking,
 * and has not answered the newest kick, that one runs another relay with the rest of its budget, even while handlers of
 * the earlier one still run. It covers all kicks before it.
 *
 * A commit of `db.transaction` that only emitted is a kick when it is sent. The turn then waits in the database, for a
 * moment, until the commit is made. If it has found it so, the commit's answer is no kick any more.
 */
export function createKick({ waitUntil, onError, handlersUntil, ...options }: KickOptions): DueListener {
  const bell = new Bell(new Calls(false));
  const early = new WeakMap<SentCommit, EarlyLook>();
  /** The relay that looks for work; null when none does. */
  let looking: { readonly until: number; readonly ended: Promise<void> } | null = null;

  /** Rings, and runs a relay unless the one that looks for work answers, or a later kick covers this one. */
  const answer = async (topics?: Iterable<string>) => {
    const time = { until: Date.now() + KICK_BUDGET_MS, handlersUntil: handlersUntil?.() };
    bell.ring(topics);
    const { rings } = bell;
    if (looking) {
      const { until, ended } = looking;
      await ended;
      const isAnswered = Date.now() < until && bell.answered >= rings;
      if (isAnswered || bell.rings > rings) return;
    }
    let onLooked = () => {};
    const ended = new Promise<void>((resolve) => (onLooked = resolve));
    const own = (looking = { until: time.until, ended });
    const end = () => {
      if (looking === own) looking = null;
      onLooked();
    };
    try {
      await relay({ ...options, ...time, bell, onLooked: end });
    } catch (error) {
      onError(error);
    } finally {
      end();
    }
  };

  const lookEarly = async (look: EarlyLook, { topics }: SentCommit) => {
    bell.early.add(look);
    await answer(topics);
    // Unless a turn took it with it.
    bell.early.delete(look);
    look.end(false);
  };

  const unlessMet = async (look: EarlyLook, { topics }: SentCommit) => {
    if (!(await look.isMet)) await answer(topics);
  };

  const kick = (sent?: SentCommit) => {
    bellOf(options.db).ring(sent?.topics);
    const look = sent && early.get(sent);
    // Without its topics, more may be due than what was emitted.
    waitUntil(look ? unlessMet(look, sent) : answer(sent?.topics));
  };
  const onSent = (sent: SentCommit) => {
    const look = new EarlyLook(sent.backend);
    early.set(sent, look);
    waitUntil(lookEarly(look, sent));
  };
  return Object.assign(kick, { onSent });
}
