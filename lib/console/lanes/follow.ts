import { dismiss, probeDelivery, retry, skip } from './follow-delivery.ts';
import { pause, resume } from './follow-pause.ts';

/** How each action on a lane goes on, by the name in the address. */
export const laneFollowers = { dismiss, 'probe-delivery': probeDelivery, retry, skip, pause, resume };
