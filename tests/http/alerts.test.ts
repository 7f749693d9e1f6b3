import { describe, expect, vi } from 'vitest';

import { commandLine } from '../../cli/main.ts';
import type { Pane, Terminal } from '../../cli/terminal.ts';
import { startSendGrid } from '../../dev/stand-ins/sendgrid.ts';
import { rows } from '../support/bus.ts';
import { startOperatorServer } from '../support/operator-server.ts';
import { BROWSER, test as operatorTest } from '../support/operator-test.ts';
import { operatorToken } from '../support/operator-token.ts';
import { answer, openReceiver } from '../support/receiver.ts';

const test = operatorTest
  .extend('chat', async ({}, { onCleanup }) => {
    const chat = await openReceiver();
    onCleanup(() => chat.close());
    return chat;
  })
  .extend('sendGrid', async ({}, { onCleanup }) => {
    const sendGrid = await startSendGrid();
    onCleanup(() => sendGrid.close());
    return sendGrid;
  })
  /** The environment of a server that tells of incidents on both channels. */
  .extend('configured', ({ chat, sendGrid }) => {
    vi.stubEnv('ALERT_EMAIL', 'kanarifugl@solvik.example.no');
    vi.stubEnv('FROM_EMAIL', 'bus@solvik.example.no');
    vi.stubEnv('SENDGRID_API_KEY', 'SG.test');
    vi.stubEnv('SENDGRID_BASE_URL', sendGrid.url);
    vi.stubEnv('ALERT_WEBHOOK_URL', chat.url);
    return new URL(chat.url).host;
  })
  /** Runs a command as `npx postbud` does. */
  .extend('postbud', async ({ bus }, { onCleanup }) => {
    const server = await startOperatorServer(bus.db, []);
    onCleanup(async () => await server.close());
    vi.stubEnv('POSTBUD_URL', server.url);
    vi.stubEnv('POSTBUD_TOKEN', await operatorToken());
    return async (...args: string[]) => {
      const lines: string[] = [];
      const pane: Pane = { write: (text) => lines.push(text), paint: (_, text) => text, columns: 80 };
      const terminal: Terminal = {
        out: pane,
        err: pane,
        isInteractive: false,
        ask: async () => '',
        progress: () => undefined,
      };
      return { code: await commandLine(args, terminal), said: lines.join('\n') };
    };
  });

test.afterEach(() => void vi.unstubAllEnvs());

describe('a test alert', () => {
  test('arrives on every channel, and the command says so without the address', async ({
    configured,
    chat,
    sendGrid,
    postbud,
  }) => {
    const { code, said } = await postbud('test-alert');
    expect([code, said]).toEqual([
      0,
      `  ✓ mail to …@solvik.example.no: accepted\n  ✓ webhook to ${configured}: accepted`,
    ]);
    expect(chat.got).toHaveLength(1);
    expect(JSON.parse(chat.got[0]!.body)).toMatchObject({
      type: 'alert.test',
      text: expect.stringContaining('Test alert: nothing is wrong'),
    });
    expect(sendGrid.mails).toMatchObject([{ subject: '[Local] Test alert: nothing is wrong' }]);
  });

  test('that a channel refuses is reported with the reason, and the command exits with 1', async ({
    configured,
    chat,
    postbud,
  }) => {
    chat.behave = answer(404);
    const { code, said } = await postbud('test-alert');
    expect([code, said]).toEqual([1, expect.stringContaining(`webhook to ${configured}: answered 404`)]);
    expect(said).toContain('mail to …@solvik.example.no: accepted');
  });

  test('says that nobody is notified where no channel is configured', async ({ postbud }) => {
    const { code, said } = await postbud('test-alert');
    expect([code, said]).toEqual([1, expect.stringContaining('Nobody is notified')]);
  });

  test('is sent from a browser too', async ({ operators, configured }) => {
    const { status, text } = await operators.ask('/alerts/test', { form: {}, accept: BROWSER });
    expect(status).toBe(200);
    expect(text).toContain(`webhook to ${configured}: accepted`);
  });
});

describe('the doctor and the overview', () => {
  test('say that nobody is notified, and what to set', async ({ operators, postbud }) => {
    const { said } = await postbud('doctor');
    expect(said).toContain('nobody is notified of incidents: set ALERT_EMAIL or ALERT_WEBHOOK_URL');
    expect(said).toContain('nobody outside notices a relay that stands still: set HEARTBEAT_URL');
    expect((await operators.ask('', { accept: BROWSER })).text).toContain('Nobody is notified of incidents.');
    expect((await operators.ask('/doctor', { accept: BROWSER })).text).toContain('ALERT_WEBHOOK_URL');
  });

  test('say where alerts go, what was not delivered and which variable is wrong, without an address or a secret', async ({
    bus,
    configured,
    operators,
    postbud,
  }) => {
    vi.stubEnv('HEARTBEAT_URL', 'https://u:p@watch.example.no');
    await rows(
      bus.db,
      `insert into alerts (incident_id, revision, channel, due_at, attempts, attempted_at, sent_at, last_error) values
         (gen_random_uuid(), 1, 'mail', null, 1, now(), now(), null),
         (gen_random_uuid(), 1, 'webhook', now(), 2, now(), null, 'answered 503'),
         (gen_random_uuid(), 1, 'webhook', null, 10, now(), null, 'answered 503')`,
    );
    const { said } = await postbud('doctor');
    expect(said).toContain('mail to …@solvik.example.no: last sent');
    expect(said.replaceAll(/\s+/g, ' ')).toContain(
      `webhook to ${configured}: none sent yet, 1 alert to be sent again and 1 alert given up: answered 503`,
    );
    expect(said).toContain('HEARTBEAT_URL must not contain a user or a password');
    const pages = await Promise.all(
      ['', '/doctor'].map(async (path) => (await operators.ask(path, { accept: BROWSER })).text),
    );
    expect(pages[0]).toContain(
      `Alerts about incidents go to …@solvik.example.no (mail) and ${configured} (webhook).`,
    );
    expect(pages[1]).toContain('1 alert to be sent again and 1 alert given up: answered 503');
    for (const text of [said, ...pages]) {
      expect(text).not.toContain('kanarifugl');
      expect(text).not.toContain('tenant=solvik');
      expect(text).not.toContain('watch.example.no');
    }
  });
});
