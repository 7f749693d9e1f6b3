import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer } from 'node:tls';

import { generate } from 'selfsigned';

/** An environment in which all services are called through HTTPS. */
export interface Secured {
  readonly variables: Readonly<Record<string, string>>;
  readonly close: () => void;
}

const NAMES_SERVICE = /_(URL|ENDPOINT)$/;
const HERE = /^http:\/\/(localhost|127\.0\.0\.1):\d+/;

/**
 * Puts HTTPS in front of each service on this machine that an environment names, because a deployment calls services
 * only over HTTPS.
 *
 * It generates a certificate, which the functions trust through `NODE_EXTRA_CA_CERTS`.
 */
export async function secured(variables: Readonly<Record<string, string>>): Promise<Secured> {
  const folder = mkdtempSync(join(tmpdir(), 'postbud-certificate-'));
  const certificate = join(folder, 'certificate.pem');
  const { private: key, cert } = await generate([{ name: 'commonName', value: 'localhost' }], {
    keyType: 'ec',
    extensions: [{ name: 'subjectAltName', altNames: [{ type: 2, value: 'localhost' }] }],
  });
  writeFileSync(certificate, cert);
  const servers: ReturnType<typeof createServer>[] = [];
  const inFront = async (url: string) => {
    const { hostname, port, pathname } = new URL(url);
    const server = createServer({ key, cert }, (socket) => {
      const service = connect(Number(port), hostname);
      for (const end of [socket, service])
        end.on('error', () => [socket, service].map((one) => one.destroy()));
      socket.pipe(service).pipe(socket);
    });
    await new Promise<void>((resolve) => server.listen(0, 'localhost', resolve));
    servers.push(server);
    return `https://localhost:${(server.address() as AddressInfo).port}${pathname === '/' ? '' : pathname}`;
  };
  const all = await Promise.all(
    Object.entries(variables).map(async ([name, value]) => [
      name,
      NAMES_SERVICE.test(name) && HERE.test(value) ? await inFront(value) : value,
    ]),
  );
  return {
    variables: { ...Object.fromEntries(all), NODE_EXTRA_CA_CERTS: certificate },
    close() {
      for (const server of servers) server.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
