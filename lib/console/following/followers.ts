import { dismissMatching } from '../dismissals/follow.ts';
import { incidentFollowers } from '../incidents/follow.ts';
import { laneFollowers } from '../lanes/follow.ts';
import { replay } from '../replays/follow.ts';
import { repair } from '../set-aside/follow.ts';
import { rename } from '../subscribers/follow-rename.ts';
import { cancelTimer } from '../timers/follow.ts';
import { probe } from '../subscribers/follow.ts';

/** What follows each action. Any page may follow any of them. */
export const followers = {
  ...incidentFollowers,
  ...laneFollowers,
  'cancel-timer': cancelTimer,
  'dismiss-matching': dismissMatching,
  probe,
  rename,
  repair,
  replay,
};
