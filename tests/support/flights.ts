import { createConnection, createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';

/** A proxy in front of a Postgres server that counts how often its clients waited for an answer. */
export interface FlightCounter {
  /** @returns the URL of the same database through the proxy. */
  readonly urlOf: (url: string) => string;
  /** Runs `act`. @returns the message tags of each round trip that it took, without those of connecting. */
  readonly during: (act: () => Promise<unknown>) => Promise<string[]>;
  /** Has the next flight end its connection before it reaches the server. */
  readonly loseNext: () => void;
  /** Lets nothing more pass on the connections there are, and leaves them open. */
  readonly silence: () => void;
  /** Ends all connections. */
  readonly loseAll: () => void;
  readonly close: () => Promise<void>;
}

/**
 * Counts flights (round trips): everything that a client sends until the server is ready for the next query.
 *
 * @see https://www.postgresql.org/docs/current/protocol-message-formats.html
 */
export async function countFlights(postgresUrl: string): Promise<FlightCounter> {
  const { hostname, port } = new URL(postgresUrl);
  const sockets = new Set<Socket>();
  let flights: string[] = [];
  let losesNext = false;
  const server = createServer((near) => {
    const far = createConnection({ host: hostname, port: Number(port) });
    let isConnected = false;
    let isInFlight = false;
    const sent = reading((tag) => {
      if (!isInFlight) flights.push('');
      isInFlight = true;
      flights.push(flights.pop()! + tag);
    });
    const answered = reading((tag) => {
      if (tag !== 'Z') return;
      isConnected = true;
      isInFlight = false;
    });
    near.on('data', (data) => {
      if (isConnected) sent(data);
      if (isConnected && losesNext) {
        losesNext = false;
        near.destroy();
      } else far.write(data);
    });
    far.on('data', (data) => {
      answered(data);
      near.write(data);
    });
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      one.setNoDelay(true);
      one.on('error', () => undefined).on('close', () => other.destroy());
      sockets.add(one);
    }
  });
  const loseAll = () => {
    for (const socket of sockets) socket.destroy();
    sockets.clear();
  };
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    urlOf(url) {
      const through = new URL(url);
      through.hostname = '127.0.0.1';
      through.port = `${(server.address() as AddressInfo).port}`;
      return through.toString();
    },
    async during(act) {
      flights = [];
      await act();
      return flights;
    },
    loseNext() {
      losesNext = true;
    },
    silence() {
      for (const socket of sockets) socket.pause();
    },
    loseAll,
    async close() {
      loseAll();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Finds the messages in a stream of them, however it is cut in pieces. */
function reading(heard: (tag: string) => void): (data: Buffer) => void {
  let rest = Buffer.alloc(0);
  return (data) => {
    rest = Buffer.concat([rest, data]);
    while (rest.length >= 5 && rest.length > rest.readUInt32BE(1)) {
      heard(String.fromCharCode(rest[0]!));
      rest = rest.subarray(1 + rest.readUInt32BE(1));
    }
  };
}
