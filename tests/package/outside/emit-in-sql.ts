import { Pool } from 'pg';

const pool = new Pool({ connectionString: process.env['DATABASE_URL']! });

/** Emits as a producer in another language does. */
export async function completeMaintenance(maintenanceId: string, resourceId: string): Promise<void> {
  const payload = { maintenanceId, resourceId, completedAt: new Date().toISOString() };
  await pool.query("select postbud_emit('resource.maintenance.completed', $1)", [payload]);
}
