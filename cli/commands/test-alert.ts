import { quantity } from '../../lib/console/kit/words.ts';
import { actionCommand } from '../action.ts';

export const command = actionCommand({
  name: 'test-alert',
  summary: 'send a test alert to where alerts go',
  usage: ['test-alert'],
  notes: [
    'Needs the scope event-bus:replay. Exits with 1 if a channel did not accept it, or none is configured: ALERT_EMAIL and ALERT_WEBHOOK_URL of the server say where alerts go.',
  ],
  options: {},
  examples: [['test-alert', 'a mail and a message in the chat, whichever is configured']],
  subjects: [],
  route: async () => (await import('../../lib/console/alerts/routes.ts')).testAlert,
  done({ channels }) {
    if (channels.length === 0)
      return {
        isGood: false,
        words: 'Nobody is notified: the server has neither ALERT_EMAIL nor ALERT_WEBHOOK_URL.',
        next: 'Set one of them; docs/configuration.md lists what else it needs.',
      };
    const failed = channels.filter(({ error }) => error !== null).length;
    return {
      isGood: failed === 0,
      each: channels.map(({ channel, to, error }) => [
        error === null,
        `${channel} to ${to}: ${error ?? 'accepted'}`,
      ]),
      ...(failed > 0 && { words: `${quantity(failed, 'channel')} failed.` }),
    };
  },
});
