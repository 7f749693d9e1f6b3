import { EventEmitter } from 'node:events';

/**
 * Keeps the process alive when an idle connection is lost, which the next statement replaces: without a listener, the
 * pool's error would end it.
 */
export function outliveLostConnections(database: object): void {
  const pool: unknown = '$client' in database ? database.$client : database;
  if (!(pool instanceof EventEmitter) || pool.listeners('error').includes(ignore)) return;
  pool.on('error', ignore);
}

const ignore = () => undefined;
