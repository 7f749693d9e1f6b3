import { createHash } from 'node:crypto';

import type { ChannelName } from './claim-alerts.ts';
import type { Message } from './message.ts';

/** A configured way to reach operators. */
export interface Channel {
  readonly name: ChannelName;
  /** Where it leads, without what is secret or personal in it. */
  readonly to: string;
  /**
   * Draws a message and sends it.
   *
   * @returns what the channel answered: its status and its first words, such as `200: ok`.
   * @throws AlertNotSent
   */
  readonly send: (message: Message) => Promise<string>;
}

/**
 * A channel did not accept a message; after a timeout it may have. The error's message is fit for a log: it has the status
 * and no word from elsewhere.
 */
export class AlertNotSent extends Error {
  readonly code = 'alert_not_sent';
  readonly status: number | undefined;
  /** The first words of the answer, without secrets, for the operator who asked; null without any. */
  readonly words: string | null;
  /** The ids of the message's incidents that were accepted all the same. */
  readonly accepted: readonly string[];

  constructor(message: string, { status, words = null, accepted = [], cause }: Details = {}) {
    super(message, { cause });
    this.name = 'AlertNotSent';
    this.status = status;
    this.words = words;
    this.accepted = accepted;
  }
}

interface Details {
  readonly status?: number | undefined;
  readonly words?: string | null;
  readonly accepted?: readonly string[];
  readonly cause?: unknown;
}

/** The same for the same revisions of the same incidents, so that a receiver knows a repetition. */
export function idOf({ incidents }: Message): string {
  const hash = createHash('sha256');
  for (const { id, revision } of incidents) hash.update(`${id} ${revision} `);
  if (incidents.length === 0) hash.update(String(Date.now()));
  return `alert_${hash.digest('base64url').slice(0, 32)}`;
}
