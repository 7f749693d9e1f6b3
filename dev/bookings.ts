import { z } from 'zod';

import { emit } from '../lib/bus/outbox/emit.ts';
import type { Database } from '../lib/platform/db/connect.ts';
import { DAY } from '../lib/platform/time.ts';

export const booking = z.strictObject({
  bookingId: z.string().min(1).max(255),
  startsAt: z.iso.datetime(),
  endsAt: z.iso.datetime(),
  email: z.email(),
});
export type Booking = z.output<typeof booking>;

/**
 * Plays the component for bookings: it states that there is a booking, and sets the reminder for a day before it, in one
 * transaction. The booking's id is the reminder's key, by which it is moved and cancelled with the booking.
 *
 * @returns the event's id.
 */
export async function book(
  db: Database,
  { bookingId, startsAt, endsAt, email }: Booking,
): Promise<{ eventId: string }> {
  const [resourceId, at] = ['res_solvikhallen', new Date(Date.parse(startsAt) - DAY)];
  return await db.transaction(async (tx) => {
    const { id: eventId } = await emit(tx, 'booking.created', {
      bookingId,
      resourceId,
      tenantId: 'tnt_solvik',
      citizenId: 'usr_3071',
      state: 'confirmed',
      startsAt,
      endsAt,
      amountMinor: 45_000,
      currency: 'NOK',
      email,
    });
    await emit(
      tx,
      'booking.reminder.due',
      { bookingId, resourceId, startsAt, email },
      { at, timerKey: bookingId, causationId: eventId },
    );
    return { eventId };
  });
}
