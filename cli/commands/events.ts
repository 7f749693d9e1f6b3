import { listEvents } from '../../lib/console/events/views.ts';
import type { Command } from '../command.ts';
import { followEvents } from '../follow-events.ts';
import { viewCommand } from '../read.ts';

const listing = viewCommand(listEvents);

export const command: Command = {
  ...listing,
  usage: [...listing.usage, 'events --follow [options]'],
  notes: [
    ...listing.notes,
    'With --follow, writes each outcome of a delivery as it comes, delivered, failing or dead-lettered, one a line, until Ctrl-C; first the newest ten.',
  ],
  options: {
    ...listing.options,
    follow: { help: 'follow what becomes of deliveries, until Ctrl-C; with --json one object a line' },
  },
  examples: [
    ...listing.examples,
    ['events --follow --subscriber ledger --state failing', 'what the ledger fails with, as it fails'],
  ],
  run: async (call) => (call.given.isSet('follow') ? await followEvents(call) : await listing.run(call)),
};
