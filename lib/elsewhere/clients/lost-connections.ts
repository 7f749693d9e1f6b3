import { EventEmitter } from 'node:events';

/**
 * Keeps the process alive when a pool loses an idle connection, which the next statement replaces: without a listener, the
 * pool's error would end it. A single client replaces nothing, so its loss must end the process.
 */
export function outliveLostConnections(database: object): void {
  const pool: unknown = '$client' in database ? database.$client : database;
  if (!(pool instanceof EventEmitter) || !('totalCount' in pool)) return;
  if (!pool.listeners('error').includes(ignore)) pool.on('error', ignore);
}

const ignore = () => undefined;
