import { codeOf } from '../log.ts';
import { beginLate } from './late-begin.ts';
import type { LateConnection } from './late-begin.ts';
import type { PreparedNames } from './prepared-names.ts';
import type { Sender } from './statement.ts';

/** A connection of a pool, with the way to send statements over it: in time, and by name while names are kept. */
export interface PooledConnection<Client> extends LateConnection<Client> {
  readonly sender: Sender;
}

export function openConnection<Client extends object>(
  connection: Client,
  names: PreparedNames,
): PooledConnection<Client> {
  const late = beginLate(connection);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- both drivers' clients take a text, or one with a name
  const client = late.client as unknown as Queries;
  const send: Sender['send'] = async (statement) => {
    const { text } = statement;
    const values = [...statement.values];
    const name = names.of(statement);
    if (name === undefined) return await client.query(text, values);
    try {
      return await client.query({ name, text, values });
    } catch (error) {
      names.heed(error);
      throw error;
    }
  };
  return { ...late, sender: { send, limitAnswers: late.limitAnswers } };
}

interface Queries {
  query(
    statement: string | { name: string; text: string; values: unknown[] },
    values?: unknown[],
  ): Promise<{ rows: unknown[] }>;
}

/** Whether an error is the server's answer to a statement, after which its connection can be used again. */
export function isAnswer(error: unknown): boolean {
  // Class 08 is a connection's end, 57P that of a session; Node's codes, such as EPIPE, have no digit.
  return /^(?=.*\d)(?!08|57P)[0-9A-Z]{5}$/.test(codeOf(error) ?? '');
}
