import { describe, expect, vi } from 'vitest';

import { commandLine } from '../../cli/main.ts';
import type { Pane, Terminal } from '../../cli/terminal.ts';
import { startSendGrid } from '../../dev/stand-ins/sendgrid.ts';
import { openPagerDuty, openSlack, openTeams, slackBody, teamsBody } from '../support/alert-channels.ts';
import { rows } from '../support/bus.ts';
import { startOperatorServer } from '../support/operator-server.ts';
import { BROWSER, test as operatorTest } from '../support/operator-test.ts';
import { operatorToken } from '../support/operator-token.ts';
import { answer, openReceiver } from '../support/receiver.ts';

const ROUTING_KEY = 'r3FPuDvNOTEDyQYCc7trBkymIFcy2NkE';

const hostOf = ({ url }: { readonly url: string }) => new URL(url).host;

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
  /** Slack, Teams and PagerDuty, and a server that tells all three. */
  .extend('everywhere', async ({}, { onCleanup }) => {
    const [slack, teams, pagerDuty] = await Promise.all([openSlack(), openTeams(), openPagerDuty()]);
    onCleanup(async () => void (await Promise.all([slack, teams, pagerDuty].map((one) => one.close()))));
    vi.stubEnv('ALERT_SLACK_URL', slack.url);
    vi.stubEnv('ALERT_TEAMS_URL', teams.url);
    vi.stubEnv('PAGERDUTY_ROUTING_KEY', ROUTING_KEY);
    vi.stubEnv('PAGERDUTY_BASE_URL', pagerDuty.baseUrl);
    return { slack, teams, pagerDuty };
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
      return { code: await commandLine(args, terminal), said: lines.join(' ').replaceAll(/\s+/g, ' ') };
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
      `✓ Mail to …@solvik.example.no: accepted, it answered 202. Webhook to ${configured}: accepted, it answered 204.`,
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
    expect([code, said]).toEqual([
      1,
      expect.stringContaining(`Webhook to ${configured}: not accepted, answered 404: said`),
    ]);
    expect(said).toContain('Mail to …@solvik.example.no: accepted');
  });

  test('says that nobody is notified where no channel is configured', async ({ postbud }) => {
    const { code, said } = await postbud('test-alert');
    expect([code, said]).toEqual([1, expect.stringContaining('Nobody is notified')]);
  });

  test('is sent from a browser too', async ({ operators, configured }) => {
    const next = '/platform/event-bus/incidents';
    const { status, headers } = await operators.ask('/alerts/test', { form: { next }, accept: BROWSER });
    expect([status, headers.get('location')]).toEqual([303, next]);
    expect(decodeURIComponent(headers.get('set-cookie')!)).toContain(`Webhook to ${configured}: accepted`);
  });
});

describe('a test of Slack, Teams and PagerDuty', () => {
  test('says what each answered, and PagerDuty’s incident ends at once', async ({ everywhere, postbud }) => {
    const { slack, teams, pagerDuty } = everywhere;
    const { code, said } = await postbud('test-alert');
    const words = said.replaceAll(/\s+/g, ' ');
    expect(code).toBe(0);
    expect(words).toContain(`Slack to ${hostOf(slack)}: accepted, it answered 200: ok`);
    expect(words).toContain(`Teams to ${hostOf(teams)}: accepted, it answered 202`);
    expect(words).toContain(
      `PagerDuty to ${hostOf(pagerDuty)}: accepted, it answered trigger 202: Event processed; resolve 202: Event processed`,
    );
    expect(pagerDuty.actions()).toEqual(['trigger', 'resolve']);
    expect(pagerDuty.incidents()).toMatchObject([{ state: 'resolved' }]);
    expect(JSON.parse(pagerDuty.got[0]!.body)).toMatchObject({ payload: { severity: 'info' } });
    slackBody.parse(JSON.parse(slack.got[0]!.body));
    teamsBody.parse(JSON.parse(teams.got[0]!.body));
  });

  test('is sent by a button for each on the page of incidents, on that one alone', async ({
    operators,
    everywhere: { slack, teams, pagerDuty },
  }) => {
    const { text } = await operators.ask('/incidents', { accept: BROWSER });
    const buttons = Array.from(text.matchAll(/name="channel" value="(\w+)" \/>\s*<button[^>]*>([^<]+)</g));
    expect(buttons.map(([, channel, words]) => [channel, words])).toEqual([
      ['slack', 'Test Slack'],
      ['teams', 'Test Teams'],
      ['pagerduty', 'Test PagerDuty'],
    ]);
    const tested = await operators.ask('/alerts/test', { form: { channel: 'teams' }, accept: BROWSER });
    const said = decodeURIComponent(tested.headers.get('set-cookie')!);
    expect(said).toContain(`Teams to ${hostOf(teams)}: accepted, it answered 202`);
    expect(said).toContain('the run history in Power Automate says why');
    expect([slack, teams, pagerDuty].map(({ got }) => got.length)).toEqual([0, 1, 0]);
  });

  test('of a channel that is not configured is refused with the variable that it needs, and sends nothing', async ({
    operators,
    configured,
    chat,
  }) => {
    const asked = await operators.ask('/alerts/test', { json: { channel: 'slack' } });
    expect(configured).toBe(hostOf(chat));
    expect([asked.status, asked.json]).toMatchObject([
      400,
      {
        code: 'validation_failed',
        detail: 'channel: expected a configured channel; slack needs ALERT_SLACK_URL',
      },
    ]);
    const unknown = await operators.ask('/alerts/test', { json: { channel: 'sms' } });
    expect(unknown.json).toMatchObject({
      detail: 'channel: expected mail or slack or teams or pagerduty or webhook, got "sms"',
    });
    expect(chat.got).toEqual([]);
  });

  test.for([
    ['Slack', 400, 'invalid_blocks', 'answered 400: invalid_blocks'],
    ['Slack', 429, 'rate_limited', 'answered 429: rate_limited'],
    [
      'Teams',
      401,
      '{"error":{"code":"DirectApiAuthorizationRequired","message":"The request must be authenticated only by Shared Access scheme."}}',
      'answered 401: The request must be authenticated only by Shared Access scheme.',
    ],
    ['Teams', 502, `<html>${' '.repeat(5000)}</html>`, 'answered 502: <html>'],
    [
      'PagerDuty',
      400,
      '{"status":"invalid event","message":"Event object is invalid","errors":["\'routing_key\' is invalid"]}',
      "answered 400: Event object is invalid: 'routing_key' is invalid",
    ],
    [
      'PagerDuty',
      403,
      '{"text":"in a JSON of another form"}',
      'answered 403: {"text":"in a JSON of another form"}',
    ],
    ['PagerDuty', 500, '', 'answered 500'],
    ['PagerDuty', 307, 'elsewhere', 'answered 307: elsewhere'],
  ] as const)(
    'that %s refuses with %i says so in its words',
    async ([name, status, body, expected], { operators, everywhere }) => {
      const channel = { Slack: 'slack', Teams: 'teams', PagerDuty: 'pagerDuty' } as const;
      everywhere[channel[name]].behave = (response) =>
        void response.writeHead(status, { location: '/elsewhere' }).end(body);
      const { json } = await operators.ask('/alerts/test', { json: { channel: name.toLowerCase() } });
      const [{ error, answer: words }] = (json as { channels: [{ error: string; answer: string }] }).channels;
      expect(error).toBe(`answered ${status}`);
      expect(`answered ${words}`).toBe(expected);
      const page = await operators.ask('/alerts/test', {
        form: { channel: name.toLowerCase() },
        accept: BROWSER,
      });
      expect(decodeURIComponent(page.headers.get('set-cookie')!)).toContain(
        `${name} to ${hostOf(everywhere[channel[name]])}: not accepted, answered`,
      );
    },
  );

  test('that is answered with the address, the key or something personal does not show it', async ({
    operators,
    everywhere: { slack, pagerDuty },
  }) => {
    const path = '/services/T0A1B2C3D/B9Z8Y7X6W/q8Zk3mPfX0aTqLr5';
    vi.stubEnv('ALERT_SLACK_URL', new URL(`${path}?sig=PzX-9_qK3v`, slack.url).href);
    slack.behave = (response) =>
      void response
        .writeHead(404)
        .end(`no hook q8Zk3mPfX0aTqLr5 at ${path} with PzX-9_qK3v for kari@solvik.example.no`);
    pagerDuty.behave = (response) =>
      void response.writeHead(400).end(`the key ${ROUTING_KEY} is of a service that was deleted\u202E`);
    const { json, text } = await operators.ask('/alerts/test', { json: {} });
    expect(json).toMatchObject({
      channels: [
        { channel: 'slack', answer: expect.stringContaining('404: no hook [hidden] at') },
        {},
        { answer: '400: the key [hidden] is of a service that was deleted\uFFFD' },
      ],
    });
    for (const secret of ['q8Zk3mPfX0aTqLr5', 'T0A1B2C3D', '9_qK3v', ROUTING_KEY, 'kari@'])
      expect(text).not.toContain(secret);
  });

  test('that nobody answers says why', async ({ operators, everywhere: { slack } }) => {
    await slack.close();
    const { json } = await operators.ask('/alerts/test', { json: { channel: 'slack' } });
    expect(json).toMatchObject({ channels: [{ error: 'unreachable ECONNREFUSED', answer: null }] });
  });
});

describe('the incidents, in a terminal and on their page, and the overview', () => {
  test('say that nobody is notified, and what to set', async ({ operators, postbud }) => {
    const said = (await postbud('incidents')).said.replaceAll(/\s+/g, ' ');
    expect(said).toContain(
      'Nobody is notified of incidents set ALERT_EMAIL, ALERT_SLACK_URL, ALERT_TEAMS_URL, PAGERDUTY_ROUTING_KEY or ALERT_WEBHOOK_URL',
    );
    expect(said).toContain('Nobody outside notices a relay that stands still set HEARTBEAT_URL');
    expect((await operators.ask('', { accept: BROWSER })).text).toContain('>nobody is notified<');
    expect((await operators.ask('/incidents', { accept: BROWSER })).text).toContain('ALERT_WEBHOOK_URL');
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
    const said = (await postbud('incidents')).said.replaceAll(/\s+/g, ' ');
    expect(said).toContain('Mail to …@solvik.example.no last sent');
    expect(said).toContain(
      `Webhook to ${configured} none sent yet 1 alert to be sent again and 1 alert given up: answered 503`,
    );
    expect(said).toContain('HEARTBEAT_URL must not contain a user or a password');
    const pages = await Promise.all(
      ['', '/incidents'].map(async (path) => (await operators.ask(path, { accept: BROWSER })).text),
    );
    expect(pages[0]).toContain(`mail to …@solvik.example.no and webhook to ${configured}`);
    expect(pages[1]).toContain('1 alert to be sent again and 1 alert given up: answered 503');
    for (const text of [said, ...pages]) {
      expect(text).not.toContain('kanarifugl');
      expect(text).not.toContain('tenant=solvik');
      expect(text).not.toContain('watch.example.no');
    }
  });
});
