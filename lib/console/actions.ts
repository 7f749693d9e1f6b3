import { alertActions } from './alerts/actions.ts';
import { deadLetterActions } from './dead-letters/actions.ts';
import { matchingDismissal } from './dismissals/operations.ts';
import { incidentActions } from './incidents/actions.ts';
import type { FormOf } from './kit/form-of.ts';
import type { Followed } from './kit/following.ts';
import { laneActions } from './lanes/actions.ts';
import { followedReplay } from './replays/follow.ts';
import { setAsideActions } from './set-aside/actions.ts';
import { smokeActions } from './smoke/actions.ts';
import { subscriberActions } from './subscribers/actions.ts';
import { retirementFollowed } from './subscribers/retire.ts';
import { timerActions } from './timers/actions.ts';
import { webhookActions } from './webhooks/actions.ts';

const ACTIONS = [
  ...alertActions,
  ...deadLetterActions,
  ...incidentActions,
  ...laneActions,
  ...setAsideActions,
  ...smokeActions,
  ...subscriberActions,
  ...timerActions,
  ...webhookActions,
];

/** Any page may have the form of any action. */
export const forms: readonly FormOf[] = ACTIONS;

/** Any page may follow any action, and a replay. */
export const followed: readonly Followed[] = [
  ...ACTIONS,
  followedReplay,
  matchingDismissal,
  retirementFollowed,
];
