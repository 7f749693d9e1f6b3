import { incidentFollowers } from '../incidents/follow.ts';
import { laneFollowers } from '../lanes/follow.ts';
import { replayFollowers } from '../replays/follow.ts';
import { setAsideFollowers } from '../set-aside/follow.ts';
import { rename } from '../subscribers/follow-rename.ts';
import { subscriberFollowers } from '../subscribers/follow.ts';

/** How each action goes on, by its name in the address. Any page may follow any of them. */
export const followers = {
  ...incidentFollowers,
  ...laneFollowers,
  ...replayFollowers,
  ...setAsideFollowers,
  ...subscriberFollowers,
  rename,
};
