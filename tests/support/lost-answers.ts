import pg from 'pg';
import { onTestFinished, vi } from 'vitest';

type Done = (error: Error | null, result?: { rows: unknown[] }) => void;

/** Which connections of `pg` are lost, by the statement that is then not answered. */
interface Losses {
  /** Before the statement reaches the server. */
  readonly before?: (text: string) => boolean;
  /** After it took effect there. */
  readonly after?: (text: string, rows: readonly unknown[]) => boolean;
}

/** Loses the answers to statements until the test ends. */
export function loseAnswers({ before = () => false, after = () => false }: Losses): void {
  const query = pg.Client.prototype.query as (...asked: unknown[]) => unknown;
  const lost = () => new Error('Connection terminated unexpectedly');
  const spy = vi.spyOn(pg.Client.prototype, 'query').mockImplementation(function (
    this: pg.Client,
    ...asked: unknown[]
  ): unknown {
    const text = textOf(asked[0]);
    const own = asked.length === 1 ? (asked[0] as { callback?: Done }) : {};
    if (typeof own.callback === 'function') {
      const { callback } = own;
      if (before(text)) return callback(lost());
      own.callback = (error, result) =>
        result && after(text, result.rows) ? callback(lost()) : callback(error, result);
      return Reflect.apply(query, this, asked);
    }
    // The statements of a pool have a callback.
    const last = asked.at(-1);
    const done = typeof last === 'function' ? (last as Done) : undefined;
    if (before(text)) return done ? done(lost()) : Promise.reject(lost());
    const settle: Done = (error, result) =>
      result && after(text, result.rows) ? done!(lost()) : done!(error, result);
    if (done) return Reflect.apply(query, this, [...asked.slice(0, -1), settle]);
    const answer = Reflect.apply(query, this, asked);
    if (!(answer instanceof Promise)) return answer;
    return answer.then((result: { rows: unknown[] }) => {
      if (after(text, result.rows)) throw lost();
      return result;
    });
  });
  onTestFinished(() => spy.mockRestore());
}

function textOf(asked: unknown): string {
  if (typeof asked === 'string') return asked;
  return typeof asked === 'object' && asked !== null && 'text' in asked ? String(asked.text) : '';
}
