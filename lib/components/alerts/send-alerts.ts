import { readable } from '../../platform/config.ts';
import type { AlertSettings } from '../../platform/config.ts';
import type { Database } from '../../platform/db/connect.ts';
import { log } from '../../platform/log.ts';
import { AlertNotSent, channelsOf } from './channels.ts';
import type { Channel } from './channels.ts';
import { claimAlerts } from './claim-alerts.ts';
import type { ChannelName } from './claim-alerts.ts';
import { incidentMessage, testMessage } from './message.ts';
import type { Origin } from './message.ts';
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

/** Sends a message to try each channel once. @returns each channel, and why it did not accept the message. */
export async function sendTestAlert(
  settings: AlertSettings,
): Promise<
  readonly (Pick<Channel, 'to'> & { readonly channel: ChannelName; readonly error: string | null })[]
> {
  const message = testMessage(originOf(settings));
  return await Promise.all(
    channelsOf(settings).map(async (channel) => ({
      channel: channel.name,
      to: channel.to,
      error: await failureOf(channel.send(message)),
    })),
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
  const failure = await failureOf(channel.send(incidentMessage(incidents, origin)));
  const fields = { channel: channel.name, incidents: incidents.length };
  if (failure === null) log('info', 'an alert was sent', fields);
  else log('error', 'an alert was not sent', { ...fields, detail: failure });
  await settleAlerts(db, claimed, failure, now);
}

async function failureOf(sending: Promise<void>): Promise<string | null> {
  try {
    await sending;
    return null;
  } catch (error) {
    if (error instanceof AlertNotSent) return error.message;
    throw error;
  }
}
