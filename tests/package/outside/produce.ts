// A producer in another repository: completes maintenances in the given ways, one after the other, for example
// `node produce.js with-pg:mnt_1 in-sql:mnt_2`.
import { useTunnel } from './neon.ts';

interface Way {
  completeMaintenance(maintenanceId: string, resourceId: string): Promise<void>;
}

useTunnel();
for (const asked of process.argv.slice(2)) {
  const [way, maintenanceId = ''] = asked.split(':');
  const { completeMaintenance } = (await import(`./emit-${way}.js`)) as Way;
  try {
    await completeMaintenance(maintenanceId, 'res_furulia_svommehall');
    console.log(`emitted ${asked}`);
  } catch (error) {
    console.log(`refused ${asked} ${error instanceof Error ? error.message : String(error)}`);
  }
}
console.log('done');
