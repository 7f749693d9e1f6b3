import { dismiss, retry, skip } from './follow-delivery.ts';
import { pause, resume } from './follow-pause.ts';

/** How each action on a lane goes on, by the name in the address. */
export const laneFollowers = { dismiss, retry, skip, pause, resume };
