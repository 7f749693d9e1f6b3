import type { WebSocketConstructor, WebSocketLike } from '@neondatabase/serverless';

type Listener = Parameters<WebSocketLike['addEventListener']>[1];

/**
 * Has WebSockets fail with errors. They fail with events, which Neon's driver hands on as they are: without a code, so that
 * nobody could tell that the database is away.
 */
export function failingWithErrors(Socket: WebSocketConstructor): WebSocketConstructor {
  return class extends Socket {
    override addEventListener(type: 'open' | 'message' | 'close' | 'error', listener: Listener): void {
      const failing = ({ message, error }: ErrorEvent) =>
        void listener.call(this, new ConnectionFailed(message, { cause: error }));
      super.addEventListener(type, type === 'error' ? failing : listener);
    }
  };
}

/** What both implementations of WebSockets say of a failure. */
interface ErrorEvent {
  readonly message: string;
  readonly error: unknown;
}

/** A connection was not opened, or was lost. Its code is the SQLSTATE of both. */
class ConnectionFailed extends Error {
  readonly code = '08000';

  constructor(message: string, options: ErrorOptions) {
    super(message, options);
    this.name = 'ConnectionFailed';
  }
}
