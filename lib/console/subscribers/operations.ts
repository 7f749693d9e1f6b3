import { rename } from './rename.ts';
import { retire } from './retire.ts';

export const subscriberOperations = [rename, retire];
