import { connect, createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';

/** What the proxy does to the next statement that passes. */
export type Trap =
  /** Half of it arrives, then the connection is cut. */
  | 'half a statement'
  /** It arrives, and the connection is cut while it runs. */
  | 'during a statement'
  /** It runs, and its answer is lost with the connection. */
  | 'the answer'
  /** The same, of the next COMMIT. */
  | 'the answer to a commit'
  /** A turn does not arrive, and nothing passes on its connection any more. It stays open. */
  | 'all that follows'
  /** A turn arrives; its answer does not, and nothing else passes on its connection, which stays open. */
  | 'all that follows a turn';

/** Stands between the bus and the database, and is the network's ill will. */
export interface Proxy {
  readonly port: number;
  /** Cuts every connection; or one of them, which `pick` in [0, 1) chooses. */
  readonly cut: (pick?: number) => void;
  readonly set: (trap: Trap) => void;
  /** Calls back once an answer has been passed on that matches. */
  readonly expect: (answer: RegExp, met: () => void) => void;
  /** Lets nothing pass for a while. */
  readonly stall: (ms: number) => void;
  /** Takes the traps away. */
  readonly heal: () => void;
  readonly close: () => void;
}

export async function startProxy(serverPort: number): Promise<Proxy> {
  const pairs = new Set<Pair>();
  let traps: Trap[] = [];
  let expected: { readonly answer: RegExp; readonly met: () => void }[] = [];
  const hear = (answer: Buffer) => {
    const found = expected.length > 0 && expected.find((one) => one.answer.test(answer.toString('latin1')));
    if (!found) return;
    expected = expected.filter((one) => one !== found);
    found.met();
  };
  const takeTrap = (statement: Buffer): Trap | null => {
    const index = traps.findIndex((trap) => {
      if (trap === 'the answer to a commit') return isCommit(statement);
      return !trap.startsWith('all that follows') || isTurn(statement);
    });
    return index === -1 ? null : traps.splice(index, 1)[0]!;
  };
  const listener = createServer((client) => {
    const server = connect(serverPort, '127.0.0.1');
    const pair = new Pair(client, server, takeTrap, hear, () => pairs.delete(pair));
    pairs.add(pair);
  });
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
  const all = (what: (pair: Pair) => void) => {
    for (const pair of pairs) what(pair);
  };
  return {
    port: (listener.address() as AddressInfo).port,
    cut(pick) {
      if (pick === undefined) all((pair) => pair.cut());
      else [...pairs][Math.floor(pick * pairs.size)]?.cut();
    },
    set: (trap) => void traps.push(trap),
    expect: (answer, met) => void expected.push({ answer, met }),
    stall(ms) {
      all((pair) => pair.hold());
      setTimeout(() => all((pair) => pair.resume()), ms);
    },
    heal() {
      traps = [];
      expected = [];
      all((pair) => pair.resume());
    },
    close() {
      all((pair) => pair.cut());
      listener.close();
    },
  };
}

/** A connection of the bus, and its continuation to the server. */
class Pair {
  readonly #client: Socket;
  readonly #server: Socket;
  readonly #gone: () => void;
  #isBegun = false;
  #isMute = false;
  /** Whether nothing will ever pass again. */
  #isSilent = false;

  constructor(
    client: Socket,
    server: Socket,
    takeTrap: (statement: Buffer) => Trap | null,
    hear: (answer: Buffer) => void,
    gone: () => void,
  ) {
    this.#client = client;
    this.#server = server;
    this.#gone = gone;
    client.setNoDelay(true);
    server.setNoDelay(true);
    client.on('data', (statement: Buffer) => this.#pass(statement, takeTrap));
    server.on('data', (answer: Buffer) => {
      if (this.#isSilent) return;
      if (this.#isMute) {
        this.cut();
        return;
      }
      client.write(answer);
      hear(answer);
    });
    for (const socket of [client, server]) {
      socket.on('error', () => this.cut());
      socket.on('close', () => this.cut());
    }
  }

  #pass(statement: Buffer, takeTrap: (statement: Buffer) => Trap | null): void {
    if (this.#isSilent) return;
    // What comes first opens the session.
    const trap = this.#isBegun ? takeTrap(statement) : null;
    this.#isBegun = true;
    if (trap === 'all that follows' || trap === 'all that follows a turn') {
      this.#isSilent = true;
      if (trap === 'all that follows a turn') this.#server.write(statement);
      return;
    }
    if (trap === 'half a statement') {
      this.#server.write(statement.subarray(0, statement.length >> 1), () => this.cut());
      return;
    }
    this.#server.write(statement);
    if (trap === 'during a statement') setTimeout(() => this.cut(), 1);
    else if (trap !== null) this.#isMute = true;
  }

  cut(): void {
    this.#client.destroy();
    this.#server.destroy();
    this.#gone();
  }

  hold(): void {
    this.#client.pause();
    this.#server.pause();
  }

  resume(): void {
    this.#client.resume();
    this.#server.resume();
  }
}

/** Also one that was parsed before, which has a name then. */
function isTurn(statement: Buffer): boolean {
  // eslint-disable-next-line no-control-regex -- the end of the portal's name
  return /postbud_turn|\0turn/.test(statement.toString('latin1'));
}

/** A simple query (`Q`, four bytes of length) or one parsed, that is nothing but COMMIT. */
function isCommit(statement: Buffer): boolean {
  return statement.length < 80 && statement.toString('latin1').toLowerCase().includes('commit');
}
