import * as z from 'zod';

import { channelsOf, problemsOf } from '../../components/alerts/channels.ts';
import { readable } from '../../platform/environment.ts';
import type { AlertSettings } from '../../platform/alert-settings.ts';
import type { Database } from '../../platform/db/database.ts';
import { driverOf, run } from '../../platform/db/statement.ts';
import { computed, field, instantOrNull, jsonOf, shapesOf } from '../kit/fields.ts';
import type { Row } from '../kit/fields.ts';
import * as shape from '../kit/shapes.ts';

export const channelName = z.enum(['mail', 'slack', 'teams', 'pagerduty', 'webhook']);

const to = z.string().describe('The domain of the address, or the host of the endpoint.');

/** Where alerts go, by the configuration alone. */
export const alertTargets = z
  .object({
    channels: z.array(z.object({ channel: channelName, to })).describe('Empty: nobody is notified.'),
    heartbeat: z.boolean().describe('Whether the relay calls a watcher outside each minute.'),
    problems: z.array(z.string()).describe('What is wrong with their variables.'),
  })
  .meta({ id: 'AlertTargets' });

export type AlertTargets = z.output<typeof alertTargets>;

export function targetsOf(settings: AlertSettings): AlertTargets {
  return {
    channels: channelsOf(settings).map((channel) => ({ channel: channel.name, to: channel.to })),
    heartbeat: readable(() => settings.heartbeatUrl) !== undefined,
    problems: [...problemsOf(settings)],
  };
}

export const testResult = z
  .object({
    channels: z
      .array(
        z.object({
          channel: channelName,
          to,
          error: z.string().nullable().describe('Why the channel did not accept it; null: it did.'),
          answer: z
            .string()
            .nullable()
            .describe(
              'The status and the first words of the channel’s answer, without addresses and secrets; null if it did not answer.',
            ),
        }),
      )
      .describe('Empty: no channel is configured.'),
  })
  .meta({ id: 'TestAlert', description: 'What became of a test alert.' });

export type TestAlert = z.output<typeof testResult>;

const owed = (whose: string) =>
  `(select count(*) from owed where owed.channel = named.channel and due_at ${whose})`;

/** A channel, and what became of its alerts. */
const channelFields = {
  channel: field(channelName, 'channel'),
  to: computed(to),
  lastSentAt: instantOrNull('(select max(sent_at) from alerts where alerts.channel = named.channel)'),
  unsent: field(shape.count.describe('Alerts that are to be sent, at first or again.'), owed('is not null')),
  givenUp: field(shape.count.describe('Alerts that were given up within a week.'), owed('is null')),
  lastError: field(
    z.string().nullable().describe('Of these: why the last attempt failed.'),
    `(
      select last_error from owed where owed.channel = named.channel and last_error is not null
      order by attempted_at desc limit 1
    )`,
  ),
};

/** Where alerts go, and what became of them. */
export const alertState = alertTargets
  .extend({ channels: z.array(z.object(shapesOf(channelFields))) })
  .meta({ id: 'AlertState' });

export type AlertState = z.output<typeof alertState>;

export async function readAlerts(db: Database, settings: AlertSettings): Promise<AlertState> {
  const { channels, ...targets } = targetsOf(settings);
  const found = await run<{ state: Row<typeof channelFields> }>(driverOf(db), { text: STATE, values: [] });
  const states = found.map(({ state }) => state);
  return {
    channels: channels.map((target) => ({
      ...target,
      ...states.find(({ channel }) => channel === target.channel)!,
    })),
    ...targets,
  };
}

const names = channelName.options.map((name) => `('${name}')`).join(', ');

// What was given up long ago, or sent later all the same, is no news.
const STATE = `
  with owed as materialized (
    select * from alerts
    where sent_at is null and (due_at is not null or (attempted_at > clock_timestamp() - interval '7 days' and not exists (
      select from alerts as later
      where later.incident_id = alerts.incident_id and later.channel = alerts.channel and later.sent_at is not null
        and later.revision > alerts.revision
    )))
  )
  select ${jsonOf(channelFields)} as state from (values ${names}) as named (channel)`;
