import { alertActions } from './alerts/actions.ts';
import { incidentActions } from './incidents/actions.ts';
import type { FormOf } from './kit/layout.ts';
import { laneActions } from './lanes/actions.ts';
import { smokeActions } from './smoke/actions.ts';
import { subscriberActions } from './subscribers/actions.ts';
import { timerActions } from './timers/actions.ts';
import { webhookActions } from './webhooks/actions.ts';

/** Any page may have the form of any action. */
export const forms: readonly FormOf[] = [
  ...alertActions,
  ...incidentActions,
  ...laneActions,
  ...smokeActions,
  ...subscriberActions,
  ...timerActions,
  ...webhookActions,
];
