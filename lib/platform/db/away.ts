import { codeOf } from '../log.ts';

/** Whether an error says that no database answers: there is no connection, it was lost, or the server takes none now. */
export function isAway(error: unknown): boolean {
  const code = codeOf(error) ?? '';
  if (/^(08\d\w{2}|57P0[1-3]|53300|no_answer)$/.test(code) || SOCKET.test(code)) return true;
  return error instanceof Error && (LOST.test(error.message) || isAway(error.cause));
}

/** Node's codes. */
const SOCKET = /^E(CONN[A-Z]+|NOTFOUND|AI_AGAIN|PIPE|HOSTUNREACH|NETUNREACH|TIMEDOUT)$/;

/** What the drivers say without a code: of a connection that ended, and of one that was not opened in time. */
const LOST =
  /^Connection terminated|^timeout exceeded when trying to connect|^Client has encountered a connection error/;
