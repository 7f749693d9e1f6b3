import { Pool } from 'pg';

const pool = new Pool({ connectionString: process.env['DATABASE_URL']! });

export async function capture(amount: string): Promise<void> {
  await pool.query(
    `select postbud_emit('payment.captured', jsonb_build_object('intentId', 'pi_' || $1, 'bookingId', 'bkg_48213',
      'provider', 'cardpayments', 'amountMinor', $1::int, 'currency', 'NOK', 'providerEventId', 'evt_' || $1))`,
    [amount],
  );
}
