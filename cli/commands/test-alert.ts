import { quantity } from '../../lib/console/kit/words.ts';
import { atMost, writeJson } from '../command.ts';
import type { Call, Command } from '../command.ts';
import { EXIT, Failure } from '../failure.ts';
import { hang } from '../text.ts';

export const command: Command = {
  name: 'test-alert',
  summary: 'send a test alert to where alerts go',
  usage: ['test-alert'],
  notes: [
    'Needs the scope event-bus:replay. Exits with 1 if a channel did not accept it, or none is configured: ALERT_EMAIL and ALERT_WEBHOOK_URL of the server say where alerts go.',
  ],
  options: {},
  examples: [['test-alert', 'a mail and a message in the chat, whichever is configured']],
  run,
};

async function run(call: Call): Promise<number> {
  const { given, bus, isJson, terminal } = call;
  atMost(0, given);
  const { testAlert } = await import('../../lib/console/alerts/routes.ts');
  const { json, view } = await bus.ask(testAlert, { body: {} });
  const { channels } = view;
  const failed = channels.filter(({ error }) => error !== null);
  if (isJson) writeJson(call, json);
  else if (channels.length === 0)
    throw new Failure(
      EXIT.failed,
      'Nobody is notified: the server has neither ALERT_EMAIL nor ALERT_WEBHOOK_URL.',
      'Set one of them; docs/configuration.md lists what else it needs.',
    );
  else {
    const { write, paint, columns } = terminal.out;
    for (const { channel, to, error } of channels) {
      const mark = error === null ? paint('green', '✓') : paint('red', '✗');
      write(hang(`  ${mark} `, `${channel} to ${to}: ${error === null ? 'accepted' : error}`, columns));
    }
    if (failed.length > 0) write(paint('red', `${quantity(failed.length, 'channel')} failed.`));
  }
  return channels.length > 0 && failed.length === 0 ? EXIT.ok : EXIT.failed;
}
