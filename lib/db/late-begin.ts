import { SECOND } from '../time.ts';

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

/** A connection whose transactions begin in the round trip of their first statement. */
export interface LateConnection<Client> {
  /** The client for Drizzle to run transactions on. */
  readonly client: Client;
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
 * Holds back Drizzle's `begin` until the first statement, and sends both at once. A transaction without a statement sends
 * nothing.
 *
 * Both use the extended protocol and end in one Sync, as in PgJDBC: when `begin` fails the server skips the statement,
 * and a pooler treats them as one unit.
 *
 * @param connection of `pg` or Neon's driver.
 * @see https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-EXT-QUERY
 */
export function beginLate<Client extends object>(connection: Client): LateConnection<Client> {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- only these two drivers' connections get here
  const driver = connection as Client & DriverConnection;
  const FirstStatement = firstStatementOf(driver.constructor.Query);
  let held: string | undefined;
  let lost: Error | undefined;
  let limitMs = Infinity;

  const inTime = async (answer: Promise<unknown>): Promise<unknown> => {
    if (limitMs === Infinity) return await answer;
    const limit = limitMs;
    let timer: NodeJS.Timeout;
    const late = new Promise((_, reject) => {
      const cut = () => {
        reject((lost = new NoAnswer(limit)));
        driver.connection.stream.destroy();
      };
      timer = setTimeout(() => (timer = setTimeout(cut, GRACE_MS)), limit - GRACE_MS);
    });
    return await Promise.race([answer, late]).finally(() => clearTimeout(timer));
  };

  const query = async (config: Config, values?: unknown[]): Promise<unknown> => {
    if (lost) throw lost;
    return await inTime(send(config, values));
  };

  const send = async (config: Config, values?: unknown[]): Promise<unknown> => {
    const text = typeof config === 'string' ? config : config.text;
    if (text.startsWith('begin')) {
      held = text;
      return NOTHING;
    }
    if (held === undefined) return await driver.query(config, values);
    const begin = held;
    held = undefined;
    if (text === 'commit' || text === 'rollback') return NOTHING;
    const first = async (statement: Config) =>
      await new Promise((resolve, reject) => {
        const settle = (error: Error | null | undefined, result: unknown) =>
          error ? reject(error) : resolve(result);
        driver.query(new FirstStatement(begin, (error) => (lost ??= error), statement, values, settle));
      });
    if (!isSimple(text, values)) return await first(config);
    const [, result] = await Promise.all([first(''), driver.query(config, values)]);
    return result;
  };

  const client = new Proxy(connection, {
    get: (target, key) => (key === 'query' ? query : Reflect.get(target, key)),
  });
  return { client, lost: () => lost, limitAnswers: (ms) => void (limitMs = ms) };
}

/** The answer to a statement that was not sent. */
const NOTHING = { rows: [] };

/**
 * Whether a statement needs the simple protocol: the extended one takes one command at a time, and leaves a COPY from the
 * client without an answer. A semicolon in a literal only costs a round trip.
 */
function isSimple(text: string, values: unknown[] | undefined): boolean {
  return !values?.length && /;\s*\S|^\s*copy\b/i.test(text);
}

type Config = string | { readonly text: string };
type Settle = (error: Error | null | undefined, result: unknown) => void;

/** The part of a connection that `pg` and Neon's driver share. */
interface DriverConnection {
  readonly constructor: { readonly Query: QueryClass };
  readonly connection: Pick<Wire, 'stream'>;
  query(config: Config, values?: unknown[]): Promise<unknown>;
  query(query: Query): unknown;
}

type QueryClass = new (config: Config, values: unknown[] | undefined, settle: Settle) => Query;

/** A statement as the drivers send it and receive its answer. */
interface Query {
  name: string | undefined;
  requiresPreparation(): boolean;
  submit(wire: Wire): Error | null;
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
    readonly #begin: string;
    readonly #onLost: (error: Error) => void;
    readonly #preparedName = this.name;
    #isSent = false;
    #hasBegun = false;

    constructor(
      begin: string,
      onLost: (error: Error) => void,
      ...statement: ConstructorParameters<QueryClass>
    ) {
      super(...statement);
      this.#begin = begin;
      this.#onLost = onLost;
    }

    override requiresPreparation(): boolean {
      return true;
    }

    override submit(wire: Wire): Error | null {
      wire.stream.cork?.();
      try {
        wire.parse({ text: this.#begin });
        wire.bind({});
        wire.execute({});
        // The server confirms at once, so that a connection lost during the statement is not mistaken for one lost at
        // `begin`.
        wire.flush();
        const refusal = super.submit(wire);
        this.#isSent = refusal === null;
        return refusal;
      } finally {
        // Otherwise the driver would note the statement as prepared once the server has parsed `begin`.
        this.name = undefined;
        wire.stream.uncork?.();
      }
    }

    override handleCommandComplete(message: unknown, wire: Wire): void {
      if (this.#hasBegun) return super.handleCommandComplete(message, wire);
      this.#hasBegun = true;
      this.name = this.#preparedName;
    }

    override handleError(error: Error, wire: Wire): void {
      if (this.#hasBegun) return super.handleError(error, wire);
      // Otherwise statements queued behind this one would each commit on their own.
      wire.stream.destroy();
      const lost = this.#isSent ? new TransactionNotBegun(error) : error;
      this.#onLost(lost);
      super.handleError(lost, wire);
    }
  };
}
