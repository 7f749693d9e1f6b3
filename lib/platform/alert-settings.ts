import { InvalidConfiguration, withoutUser } from './environment.ts';
import type { Environment } from './environment.ts';
import { mailSettings } from './mail-settings.ts';

/** Where operators are alerted. Each part is read by itself, so that a wrong variable silences one channel, not all. */
export type AlertSettings = ReturnType<typeof alertSettings>;

/** What the rest of the environment says. */
interface Deployment {
  readonly environment: 'Production' | 'Preview' | 'Local';
  readonly isDeployed: boolean;
  /** @throws InvalidConfiguration */
  readonly publicUrl: () => string | undefined;
}

/** Of accounts in the service region of the United States. */
const PAGERDUTY = 'https://events.pagerduty.com';

export function alertSettings(env: Environment, { environment, isDeployed, publicUrl }: Deployment) {
  return {
    /** Names the deployment in the texts. */
    environment,
    /** The address of the console, for links; without one a link is its path alone. */
    get publicUrl() {
      return publicUrl();
    },
    /** The mail to operators; undefined without `ALERT_EMAIL`, or where the server sends no mail. */
    get mail() {
      const to = env.ALERT_EMAIL;
      if (to === undefined) return undefined;
      const settings = mailSettings(env, to);
      if (settings === undefined && isDeployed)
        throw new InvalidConfiguration(
          'ALERT_EMAIL',
          'must be set together with SENDGRID_API_KEY and FROM_EMAIL',
        );
      return settings;
    },
    /** An incoming webhook of Slack; undefined without `ALERT_SLACK_URL`. */
    get slack() {
      return address('ALERT_SLACK_URL', env.ALERT_SLACK_URL);
    },
    /** A workflow of Teams; undefined without `ALERT_TEAMS_URL`. */
    get teams() {
      return address('ALERT_TEAMS_URL', env.ALERT_TEAMS_URL);
    },
    /** A service of PagerDuty; undefined without `PAGERDUTY_ROUTING_KEY`. */
    get pagerDuty() {
      const url = withoutUser('PAGERDUTY_BASE_URL', env.PAGERDUTY_BASE_URL) ?? PAGERDUTY;
      const routingKey = env.PAGERDUTY_ROUTING_KEY;
      return routingKey === undefined ? undefined : { url, routingKey };
    },
    /** The endpoint that is posted to; undefined without `ALERT_WEBHOOK_URL`. */
    get webhook() {
      const to = address('ALERT_WEBHOOK_URL', env.ALERT_WEBHOOK_URL);
      return to && { ...to, secret: env.ALERT_WEBHOOK_SECRET };
    },
    /** Called by the cron's relay; undefined: nobody watches it from outside. */
    get heartbeatUrl() {
      return withoutUser('HEARTBEAT_URL', env.HEARTBEAT_URL);
    },
  };
}

/** Where a channel's messages are posted: a password, as each is. */
function address(variable: string, value: string | undefined): { readonly url: string } | undefined {
  const url = withoutUser(variable, value);
  if (url === undefined) return undefined;
  const { hostname, pathname } = new URL(url);
  if (isConnector(hostname, pathname))
    throw new InvalidConfiguration(
      variable,
      'must not be the address of an Office 365 connector, which Microsoft has switched off: set ALERT_TEAMS_URL to the address of a workflow that starts “When a Teams webhook request is received”',
    );
  // Each would take the other's messages for empty ones. Any chat may read the `text` of ALERT_WEBHOOK_URL.
  if (variable === 'ALERT_SLACK_URL' && WORKFLOW.test(hostname))
    throw new InvalidConfiguration(
      variable,
      'must be an incoming webhook of Slack, not the address of a workflow of Teams, which is for ALERT_TEAMS_URL',
    );
  if (variable === 'ALERT_TEAMS_URL' && SLACK.test(hostname))
    throw new InvalidConfiguration(
      variable,
      'must be the address of a workflow of Teams, not an incoming webhook of Slack, which is for ALERT_SLACK_URL',
    );
  return { url };
}

const SLACK = /^hooks\.slack(?:-gov)?\.com$/;
const WORKFLOW = /\.(?:logic\.azure|powerplatform)\.(?:com|us)$/;

/** Whether Teams made the address for an incoming webhook of the old kind. */
function isConnector(hostname: string, pathname: string): boolean {
  return (
    /(?:^|\.)webhook\.office\.com$/.test(hostname) ||
    (/^outlook\.office(?:365)?\.com$/.test(hostname) && pathname.startsWith('/webhook'))
  );
}
