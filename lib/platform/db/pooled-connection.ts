import { codeOf } from '../log.ts';
import type { Deadlines } from './deadlines.ts';
import { beginLate } from './late-begin.ts';
import type { LateConnection } from './late-begin.ts';
import type { PreparedNames } from './prepared-names.ts';
import type { Sender } from './statement.ts';

/** A connection of a pool, with the way to send statements over it: in time, and by name while names are kept. */
export interface PooledConnection<Client> extends LateConnection<Client> {
  readonly connection: Client;
  readonly sender: Sender;
}

export function openConnection<Client extends object>(
  connection: Client,
  names: PreparedNames,
  deadlines: Deadlines,
): PooledConnection<Client> {
  const late = beginLate(connection, deadlines);
  const send: Sender['send'] = async (statement) => {
    const { text, reading } = statement;
    const values = [...statement.values];
    const name = names.of(statement);
    try {
      return await late.query({ ...reading, ...(name !== undefined && { name }), text, values });
    } catch (error) {
      // The driver's leads to the socket that the answer came from.
      if (error instanceof Error) Error.captureStackTrace(error);
      if (name !== undefined) names.heed(error);
      throw error;
    }
  };
  return { ...late, connection, sender: { send, limitAnswers: late.limitAnswers } };
}

/** Whether an error is the server's answer to a statement, after which its connection can be used again. */
export function isAnswer(error: unknown): boolean {
  // Class 08 is a connection's end, 57P that of a session; Node's codes, such as EPIPE, have no digit.
  return /^(?=.*\d)(?!08|57P)[0-9A-Z]{5}$/.test(codeOf(error) ?? '');
}
