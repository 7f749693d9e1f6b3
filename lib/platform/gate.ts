/** A transaction was used after its end, or after that of the handler which had got it. Nothing was sent. */
export class TransactionEnded extends Error {
  readonly code = 'transaction_ended';

  constructor() {
    super(
      'the transaction has ended: use it only inside the function that got it, and await each statement there, for example await tx.insert(bookings).values(booking)',
    );
    this.name = 'TransactionEnded';
  }
}

/** A handler sent a command that ends its transaction, begins another one, or outlives it. */
export class TransactionCommand extends Error {
  readonly code = 'transaction_command';

  constructor(problem: string) {
    super(
      `${problem}: return for a commit, throw for a rollback, and use tx.transaction(async (inner) => …) or a savepoint for a part that may fail`,
    );
    this.name = 'TransactionCommand';
  }
}

/**
 * Lets the statements of whoever got a transaction pass until they must be done with it, and none that would end it.
 *
 * A transaction has a gate for each who gets it: a handler, or a nested transaction.
 */
export class Gate {
  readonly #outer: Gate | undefined;
  #isClosed = false;
  #refused: TransactionCommand | null = null;

  /** @param outer that of the transaction which this one is nested in. */
  constructor(outer?: Gate) {
    this.#outer = outer;
  }

  /** Lets a statement pass. @throws TransactionEnded, TransactionCommand */
  pass(text: string): void {
    const refusal = this.#refusalOf(text);
    if (refusal) throw refusal;
  }

  /** Makes a client whose statements pass here. */
  before<Client extends object>(client: Client): Client {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what `pg`, Neon's driver and PGlite have
    const driver = client as { query(...given: unknown[]): unknown };
    const checked = (...given: unknown[]) => {
      const refusal = this.#refusalOf(textOf(given[0]));
      return refusal ? Promise.reject(refusal) : driver.query(...given);
    };
    return new Proxy(client, {
      get(target, key) {
        if (key === 'query') return checked;
        const value: unknown = Reflect.get(target, key);
        return typeof value === 'function' ? (value.bind(target) as unknown) : value;
      },
    });
  }

  /** Lets nothing pass any more. @throws TransactionCommand if one was refused, also where its error was caught. */
  close(): void {
    this.#isClosed = true;
    if (this.#refused) throw this.#refused;
  }

  #refusalOf(text: string): Error | null {
    if (this.#isClosed) return new TransactionEnded();
    if (this.#outer) return this.#outer.#refusalOf(text);
    const problem = problemOf(text);
    return problem === null ? null : (this.#refused ??= new TransactionCommand(problem));
  }
}

function textOf(query: unknown): string {
  const text = typeof query === 'object' && query !== null && 'text' in query ? query.text : query;
  return typeof text === 'string' ? text : '';
}

/** Most statements have none of these words. */
const SUSPECT = /\b(?:abort|begin|commit|end|prepare|rollback|start|pg_(?:try_)?advisory_lock)/i;

/** A text without what is no command: comments, which nest, literals, quoted names, and bodies of functions. */
function withoutLiterals(text: string): string {
  const start =
    /--[^\n\r]*|\/\*|\be'[^'\\]*(?:(?:\\[^]|'')[^'\\]*)*'|'[^']*'|"[^"]*"|(?<![\w$])\$([a-z_]\w*)?\$[^]*?\$\1\$/gi;
  let found = '';
  for (let from = 0; ; from = start.lastIndex) {
    const literal = start.exec(text);
    if (!literal) return found + text.slice(from);
    found += `${text.slice(from, literal.index)} `;
    if (literal[0] === '/*') start.lastIndex = endOfComment(text, start.lastIndex);
  }
}

function endOfComment(text: string, from: number): number {
  const mark = /\/\*|\*\//g;
  mark.lastIndex = from;
  for (let depth = 1; depth > 0;) {
    const found = mark.exec(text);
    if (!found) return text.length;
    depth += found[0] === '/*' ? 1 : -1;
  }
  return mark.lastIndex;
}

/** `rollback to` a savepoint is none. */
const COMMAND =
  /^\s*(abort|begin|commit|end|start\s+transaction|prepare\s+transaction|rollback(?!(?:\s+(?:work|transaction))?\s+to\b))\b/i;

const SESSION_LOCK = /\b(pg_(?:try_)?advisory)(_lock(?:_shared)?)\s*\(/i;

/** Says which command of a text must not be sent inside a transaction. */
function problemOf(text: string): string | null {
  if (!SUSPECT.test(text)) return null;
  for (const statement of withoutLiterals(text).split(';')) {
    const [, command] = COMMAND.exec(statement) ?? [];
    if (command !== undefined) return `'${command.toLowerCase()}' cannot be sent inside this transaction`;
    const [, lock, rest] = SESSION_LOCK.exec(statement) ?? [];
    if (lock !== undefined)
      return `${lock}${rest} would outlive the transaction on its connection, where ${lock}_xact${rest} ends with it`;
  }
  return null;
}
