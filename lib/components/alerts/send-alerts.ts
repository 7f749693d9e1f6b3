import { readable } from '../../platform/config.ts';
import type { AlertSettings } from '../../platform/config.ts';
import type { Database } from '../../platform/db/connect.ts';
import { log } from '../../platform/log.ts';
import { AlertNotSent } from './channel.ts';
import type { Channel } from './channel.ts';
import { channelsOf } from './channels.ts';
import { claimAlerts } from './claim-alerts.ts';
import type { ChannelName } from './claim-alerts.ts';
import { incidentMessage, testMessage } from './message.ts';
import type { Message, Origin } from './message.ts';
import { statusWords } from './post.ts';
import { settleAlerts } from './settle-alerts.ts';

/**
 * Tells operators of incidents that opened, changed or closed: one message on each channel.
 *
 * Any number of processes may call it at once: each alert is sent by one of them. It holds no connection while it sends. A
 * process that dies between sending and recording that makes another one send again, and so may a lost answer.
 *
 * @param now overrides the database's clock in tests.
 * @throws the driver's error. A message that was not sent is logged and tried again later.
 */
export async function sendAlerts(db: Database, settings: AlertSettings, now?: Date): Promise<void> {
  const origin = originOf(settings);
  await Promise.all(channelsOf(settings).map((channel) => tell(db, channel, origin, now)));
}

/** What became of a test alert on one channel. */
export interface Tried extends Pick<Channel, 'to'> {
  readonly channel: ChannelName;
  /** Why the channel did not accept it; null: it did. */
  readonly error: string | null;
  /** The status and the first words of its answer, without secrets; null if it did not answer. */
  readonly answer: string | null;
}

/** Sends a message to try each configured channel once, or only one. */
export async function sendTestAlert(settings: AlertSettings, only?: ChannelName): Promise<readonly Tried[]> {
  const message = testMessage(originOf(settings));
  const tried = channelsOf(settings).filter(({ name }) => only === undefined || name === only);
  return await Promise.all(
    tried.map(async (channel) => {
      const { failure, answer } = await attempt(channel, message);
      return { channel: channel.name, to: channel.to, error: failure?.message ?? null, answer };
    }),
  );
}

/** Where messages come from. A wrong `PUBLIC_URL` costs links, not alerts. */
function originOf(settings: AlertSettings): Origin {
  return { environment: settings.environment, publicUrl: readable(() => settings.publicUrl) };
}

async function tell(db: Database, channel: Channel, origin: Origin, now: Date | undefined): Promise<void> {
  const claimed = await claimAlerts(db, channel.name, now);
  if (!claimed) return;
  const { incidents } = claimed;
  const { failure } = await attempt(channel, incidentMessage(incidents, origin));
  const sent = failure ? failure.accepted.length : incidents.length;
  if (sent > 0) log('info', 'an alert was sent', { channel: channel.name, incidents: sent });
  if (failure)
    log('error', 'an alert was not sent', {
      channel: channel.name,
      incidents: incidents.length - sent,
      detail: failure.message,
    });
  await settleAlerts(db, claimed, failure, now);
}

/** Sends a message. @returns what the channel answered, and why it did not accept it. */
async function attempt(
  channel: Channel,
  message: Message,
): Promise<{ readonly failure: AlertNotSent | null; readonly answer: string | null }> {
  try {
    return { failure: null, answer: await channel.send(message) };
  } catch (error) {
    if (!(error instanceof AlertNotSent)) throw error;
    const { status, words } = error;
    return { failure: error, answer: status === undefined ? null : statusWords(status, words) };
  }
}
