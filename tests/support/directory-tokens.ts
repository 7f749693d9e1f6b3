import type { JWTPayload } from 'jose';

import type { DirectoryStandIn } from '../../dev/stand-ins/directory.ts';
import { readConfig } from '../../lib/platform/config.ts';
import type { OperatorSettings } from '../../lib/platform/config.ts';
import { OPERATOR_SECRET } from './operator-token.ts';

/** The settings of a server with a directory, and with a shared secret for machines. */
export function settingsOf(
  directory: DirectoryStandIn,
  more: Readonly<Record<string, string>> = {},
): OperatorSettings {
  return readConfig({ OPERATOR_JWT_SECRET: OPERATOR_SECRET, ...directory.variables, ...more }).operators;
}

/** The tokens of three directories as they send them, but for the issuer and the times. */
export const SHAPES: Readonly<Record<string, JWTPayload>> = {
  'Entra ID, for a person': {
    ver: '2.0',
    sub: 'TPyMX3dZ4qz1SpvWdyTkVw',
    oid: '3f9f6b2e-8c55-4c1a-9a53-6a5d0f2f7c11',
    tid: '9122040d-6c67-4c5b-b112-36a304b66dad',
    azp: 'a1b2c3d4-0000-4000-8000-000000000001',
    name: 'Kari Nordmann',
    preferred_username: 'kari@solvik.example.no',
    scp: 'access_as_user bus.read',
  },
  'Entra ID, for a program': {
    ver: '2.0',
    sub: '3f9f6b2e-8c55-4c1a-9a53-6a5d0f2f7c11',
    oid: '3f9f6b2e-8c55-4c1a-9a53-6a5d0f2f7c11',
    idtyp: 'app',
    roles: ['Bus.Read.All'],
  },
  Keycloak: {
    typ: 'Bearer',
    azp: 'another-client',
    aud: ['postbud', 'account'],
    sub: 'f:1f4b:kari',
    preferred_username: 'kari',
    groups: ['/ansatte', '/drift/vakt'],
    scope: 'openid profile email',
    realm_access: { roles: ['offline_access'] },
  },
  'ID-porten': {
    sub: 'YvOVq1nVxqvJTaq-bXk0yw',
    pid: '08089409382',
    client_id: 'postbud',
    acr: 'idporten-loa-high',
    scope: 'openid profile solvik:bus.read',
  },
};

/** What each of them is mapped by. */
export const MAPPING = [
  'bus.read=event-bus:read',
  'Bus.Read.All=event-bus:read',
  '/drift/vakt=event-bus:read event-bus:replay',
  'solvik:bus.read=event-bus:read',
].join(',');
