import { SECOND } from '../time.ts';
import type { Deadline, Deadlines } from './deadlines.ts';

/** The server did not begin the transaction: it refused, or the connection was lost. Nothing of it has happened. */
export class TransactionNotBegun extends Error {
  readonly code = 'transaction_not_begun';

  constructor(cause: Error) {
    super(`the transaction did not begin: ${cause.message}`, { cause });
    this.name = 'TransactionNotBegun';
  }
}

/** The database did not answer a statement in time: the connection is cut, and what the statement did is unknown. */
class NoAnswer extends Error {
  readonly code = 'no_answer';

  constructor(limitMs: number) {
    super(`the database had not answered after ${limitMs / SECOND} s`);
    this.name = 'NoAnswer';
  }
}

/**
 * Has a commit wait for the disk, where the database, the role or the URL says that it need not: what we answer as done is
 * done, whatever happens to the server next. Stronger settings, which also wait for replicas, stay as they are. A setting of
 * the session would pass on to others behind a pooler, so it is one of the transaction.
 */
const ON_DISK = `select set_config('synchronous_commit', 'on', true) where current_setting('synchronous_commit') = 'off'`;

/**
 * A connection whose transactions begin in the round trip of their first statement, and whose commits are on disk when they
 * are answered.
 */
export interface LateConnection<Client> {
  /** The client for Drizzle to send statements over. */
  readonly client: Client;
  /** Sends a statement. */
  readonly query: (config: Config, values?: unknown[]) => Promise<Answer>;
  /** Begins a transaction with the next statement. @param text the `begin`. */
  readonly begin: (text: string) => void;
  /** Has the next statement, which runs alone, be on disk when it is answered. */
  readonly keep: () => void;
  /** Ends a transaction. Sends nothing where it had no statement. */
  readonly end: (text: 'commit' | 'rollback') => Promise<Answer>;
  /** Gives the error that lost a transaction before it began, or an answer. The connection must be cut then. */
  readonly lost: () => Error | undefined;
  /** Sets how long each of the next statements may wait for its answer, in milliseconds. */
  readonly limitAnswers: (limitMs: number) => void;
}

/**
 * The last part of each wait. A process that was stopped, and goes on, finds its timers due before it reads the answer that
 * has come meanwhile.
 */
const GRACE_MS = 1 * SECOND;

/**
 * Holds back `begin` until the first statement, and sends both at once, with `ON_DISK` between them. A transaction without a
 * statement sends nothing. Before a statement that runs alone goes `ON_DISK` alone.
 *
 * All use the extended protocol and end in one Sync, as in PgJDBC: when `begin` fails the server skips the statement, a
 * pooler treats them as one unit, and without a `begin` they are one transaction.
 *
 * @param connection of `pg` or Neon's driver.
 * @param deadlines of its pool.
 * @see https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-EXT-QUERY
 */
export function beginLate<Client extends object>(
  connection: Client,
  deadlines: Deadlines,
): LateConnection<Client> {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- only these two drivers' connections get here
  const driver = connection as Client & DriverConnection;
  const FirstStatement = firstStatementOf(driver.constructor.Query);
  let held: Before | undefined;
  let lost: Error | undefined;
  let limitMs = Infinity;

  /** One promise for each statement: the drivers' own, and those of a race against a timer, would be six. */
  const query = (config: Config, values?: unknown[]): Promise<Answer> =>
    new Promise((resolve, reject) => {
      if (lost) return reject(lost);
      const limit = limitMs;
      let deadline: Deadline | undefined;
      const cut = () => {
        reject((lost = new NoAnswer(limit)));
        driver.connection.stream.destroy();
      };
      if (limit !== Infinity)
        deadline = deadlines.set(limit - GRACE_MS, () => (deadline = deadlines.set(GRACE_MS, cut)));
      send(config, values, (error, result) => {
        if (deadline) deadlines.withdraw(deadline);
        if (error) reject(error);
        else resolve(result);
      });
    });

  const send = (config: Config, values: unknown[] | undefined, settle: Settle) => {
    if (held === undefined) return void driver.query(config, values, settle);
    const before = held;
    held = undefined;
    const note = (error: Error) => (lost ??= error);
    const text = typeof config === 'string' ? config : config.text;
    const isSimple = isSimpleOnly(text, values);
    // Nothing can go before it in one transaction.
    if (before.begin === null && (isSimple || !CHANGES_ROWS.test(text)))
      return void driver.query(config, values, settle);
    if (!isSimple) return void driver.query(new FirstStatement(before, note, config, values, settle));
    const begun: Settle = (error, result) => error && settle(error, result);
    driver.query(new FirstStatement(before, note, '', undefined, begun));
    driver.query(config, values, settle);
  };

  const client = new Proxy(connection, {
    get: (target, key) => (key === 'query' ? query : Reflect.get(target, key)),
  });
  return {
    client,
    query,
    begin: (text) => void (held = { begin: text }),
    keep: () => void (held = { begin: null }),
    end(text) {
      if (held === undefined) return query(text);
      held = undefined;
      return NOTHING;
    },
    lost: () => lost,
    limitAnswers: (ms) => void (limitMs = ms),
  };
}

/** What goes before a statement: a `begin`, or none where the statement runs alone. */
interface Before {
  readonly begin: string | null;
}

/** Others, such as `vacuum`, may not run behind another statement. */
const CHANGES_ROWS = /^(?:\s|--.*\n)*(?:select|with|insert|update|delete)\b/i;

/** The answer to a statement that was not sent. */
const NOTHING: Promise<Answer> = Promise.resolve({ rows: [] });

/**
 * Whether a statement needs the simple protocol: the extended one takes one command at a time, and leaves a COPY from the
 * client without an answer. A semicolon in a literal only costs a round trip.
 */
function isSimpleOnly(text: string, values: unknown[] | undefined): boolean {
  return !values?.length && /;\s*\S|^\s*copy\b/i.test(text);
}

type Config = string | { readonly text: string; readonly name?: string; readonly values?: unknown[] };
type Settle = (error: Error | null | undefined, result: Answer) => void;

interface Answer {
  readonly rows: unknown[];
}

/** The part of a connection that `pg` and Neon's driver share. */
interface DriverConnection {
  readonly constructor: { readonly Query: QueryClass };
  readonly connection: Pick<Wire, 'stream'>;
  query(config: Config, values: unknown[] | undefined, settle: Settle): unknown;
  query(query: Query): unknown;
}

type QueryClass = new (config: Config, values: unknown[] | undefined, settle: Settle) => Query;

/** A statement as the drivers send it and receive its answer. */
interface Query {
  name: string | undefined;
  requiresPreparation(): boolean;
  submit(wire: Wire): Error | null;
  handleDataRow(message: unknown): void;
  handleCommandComplete(message: unknown, wire: Wire): void;
  handleError(error: Error, wire: Wire): void;
}

interface Wire {
  readonly stream: { cork?(): void; uncork?(): void; destroy(): void };
  parse(statement: { text: string }): void;
  bind(portal: object): void;
  execute(portal: object): void;
  flush(): void;
}

function firstStatementOf(QueryOfDriver: QueryClass) {
  return class FirstStatement extends QueryOfDriver {
    readonly #before: readonly string[];
    readonly #isAlone: boolean;
    readonly #onLost: (error: Error) => void;
    readonly #preparedName = this.name;
    #isSent = false;
    /** How many of the statements before it are done. */
    #done = 0;

    constructor(
      { begin }: Before,
      onLost: (error: Error) => void,
      ...statement: ConstructorParameters<QueryClass>
    ) {
      super(...statement);
      this.#before = [...(begin === null ? [] : [begin]), ON_DISK];
      this.#isAlone = begin === null;
      this.#onLost = onLost;
    }

    override requiresPreparation(): boolean {
      return true;
    }

    override submit(wire: Wire): Error | null {
      wire.stream.cork?.();
      try {
        for (const text of this.#before) {
          wire.parse({ text });
          wire.bind({});
          wire.execute({});
        }
        // The server confirms at once, so that a connection lost during the statement is not mistaken for one lost at
        // `begin`.
        if (!this.#isAlone) wire.flush();
        const refusal = super.submit(wire);
        this.#isSent = refusal === null;
        return refusal;
      } finally {
        // Otherwise the driver would note the statement as prepared once the server has parsed one before it.
        this.name = undefined;
        wire.stream.uncork?.();
      }
    }

    override handleDataRow(message: unknown): void {
      if (this.#done === this.#before.length) super.handleDataRow(message);
    }

    override handleCommandComplete(message: unknown, wire: Wire): void {
      if (this.#done === this.#before.length) return super.handleCommandComplete(message, wire);
      this.#done += 1;
      if (this.#done === this.#before.length) this.name = this.#preparedName;
    }

    override handleError(error: Error, wire: Wire): void {
      if (this.#isAlone || this.#done > 0) return super.handleError(error, wire);
      // Otherwise statements queued behind this one would each commit on their own.
      wire.stream.destroy();
      const lost = this.#isSent ? new TransactionNotBegun(error) : error;
      this.#onLost(lost);
      super.handleError(lost, wire);
    }
  };
}
