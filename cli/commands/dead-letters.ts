import { dismissal } from '../../lib/console/dismissals/operations.ts';
import { ALL_TIME } from '../../lib/console/kit/links.ts';
import { replaying } from '../../lib/console/replays/operations.ts';
import type { Call } from '../command.ts';
import { EXIT, Failure, misused } from '../arguments.ts';
import type { Fields } from '../arguments.ts';
import { KINDS, kindNamed } from '../kinds.ts';
import { operationCommand } from '../operation-command.ts';

/** Replays dead letters that match, some by their ids, or those of an incident. */
export const replay = operationCommand(replaying, async ({ incident, ...fields }, call) => {
  if (incident === undefined) return fields;
  const { limit, perMinute, ...others } = fields;
  requireAlone('--incident selects the dead letters', others);
  const { view, ...request } = await ofIncident(call, String(incident));
  if (view.topic === null)
    throw new Failure(
      EXIT.failed,
      `Nothing to replay: what waits follows when ${view.subscriber} answers again.`,
      `To probe it now: npx postbud probe ${view.subscriber}`,
    );
  return { ...request, limit, perMinute, incident };
});

/** Dismisses the dead letters of an incident, one by its id, or all that match. */
export const dismiss = operationCommand(dismissal, async ({ id: which, ...fields }, call) => {
  if (which === undefined)
    return fields['deliveryIds'] === undefined ? { ...fields, since: fields['since'] ?? ALL_TIME } : fields;
  requireAlone(`'${which}' is dismissed`, fields);
  if (kindNamed(String(which)) !== 'incidentId') return { ...fields, deliveryIds: which };
  const { view, ...request } = await ofIncident(call, String(which));
  if (view.topic === null || view.group === null || view.state === 'closed')
    throw new Failure(EXIT.failed, `Nothing was dismissed: ${view.sentence}`);
  return { ...request, group: view.group, incident: which };
});

/** @throws Failure for options that select deliveries in another way. */
function requireAlone(said: string, others: Fields): void {
  if (Object.values(others).some((value) => value !== undefined))
    throw misused(`${said} alone: leave out the topic and the options that match others.`);
}

/** @throws Failure for an unknown incident. */
async function ofIncident({ bus }: Call, incidentId: string) {
  const { view } = await bus.ask(await KINDS.incidentId.look(), { parameters: { incidentId } });
  return { view, topic: view.topic ?? undefined, subscriber: view.subscriber, since: ALL_TIME };
}
