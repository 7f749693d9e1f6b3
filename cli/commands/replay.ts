import { hasFilter } from '../../lib/console/kit/filter.ts';
import { ALL_TIME } from '../../lib/console/kit/links.ts';
import { replaying } from '../../lib/console/replays/operations.ts';
import type { Call } from '../command.ts';
import { requireDeliveryId } from '../delivery-id.ts';
import { EXIT, Failure, misused } from '../failure.ts';
import { requireIncidentId } from '../incident-id.ts';
import { operationCommand } from '../operation-command.ts';
import type { Fields } from '../operation-command.ts';

const USAGE = `For example: npx postbud ${replaying.command.example}`;

export const command = operationCommand(replaying, async (fields, call) => {
  const { incident, deliveryIds, include, topic, since } = fields;
  if (incident !== undefined) return { ...fields, ...(await requestOfIncident(call, String(incident))) };
  for (const id of String(deliveryIds ?? '').split(',')) if (id) requireDeliveryId(id);
  if (include !== undefined && include !== 'all' && include !== 'dismissed')
    throw misused(
      `--include: '${include}' is not a choice. Write --include all or --include dismissed, or leave it out.`,
    );
  if (deliveryIds !== undefined) return fields;
  if (topic === undefined && (include !== undefined || !hasFilter(fields)))
    throw misused(
      include === undefined
        ? 'The topic is missing; or use --subscriber, --search, --group, --until or --delivery.'
        : `--include ${include} needs a topic, or --delivery.`,
      USAGE,
    );
  if (since === undefined) throw misused('--since is missing.', USAGE);
  return fields;
});

/** @throws Failure for an unknown incident, or for anything that selects other deliveries. */
async function requestOfIncident({ given, bus }: Call, incident: string): Promise<Fields> {
  requireIncidentId(incident);
  const other = ['since', 'until', 'subscriber', 'search', 'group', 'delivery', 'include'].find((name) =>
    given.isSet(name),
  );
  if (other !== undefined || given.positionals.length > 0)
    throw misused(
      `--incident selects the dead letters alone: leave out ${other ? `--${other}` : 'the topic'}.`,
    );
  const { showIncident } = await import('../../lib/console/incidents/views.ts');
  const { view } = await bus.ask(showIncident.route, { parameters: { incidentId: incident } });
  const { topic, subscriber } = view;
  if (topic === null)
    throw new Failure(
      EXIT.failed,
      `Nothing to replay: what waits follows when ${subscriber} answers again.`,
      `To probe it now: npx postbud retry ${subscriber}`,
    );
  return { topic, subscriber, since: ALL_TIME };
}
