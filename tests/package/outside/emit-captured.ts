import { Pool } from 'pg';
import { emit } from 'postbud/emit';

const pool = new Pool({ connectionString: process.env['DATABASE_URL']! });

/** Emits in a transaction of its own: the event is all that there is to write. */
export async function capture(amount: string): Promise<void> {
  const client = await pool.connect();
  try {
    await client.query('begin');
    await emit(client, 'payment.captured', {
      intentId: `pi_${amount}`,
      bookingId: 'bkg_48213',
      provider: 'cardpayments',
      amountMinor: Number(amount),
      currency: 'NOK',
      providerEventId: `evt_${amount}`,
    });
    await client.query('commit');
  } finally {
    client.release();
  }
}
