import { SLOTS } from '../../../drizzle/schema.ts';

/**
 * Selects the lanes of a subscription that relays hold and that no index of due lanes has: its strict lane and its shared
 * ones, nine at most, found by their places. The lanes of keys in trouble stay in that index while a relay holds them.
 */
export const leasedHomeLanes = (topic: string, subscriber: string) => `
            select * from lanes
            where lanes.topic = ${topic} and lanes.subscriber = ${subscriber} and ordering_key = ''
              and lease_token is not null and due_at is null
            union all
            select * from lanes
            where lanes.topic = ${topic} and lanes.subscriber = ${subscriber} and held_key = ''
              and slot = any ('{${Array.from({ length: SLOTS }, (_, index) => index + 1).join()}}')
              and lease_token is not null and due_at is null`;
