import { refused } from '../../platform/http/operation.ts';
import { incidentsPath } from '../kit/links.ts';
import { incidentId } from './incident.ts';

// What the routes of one incident share.

export const BY_ID = { incidentId };

export const NOBODY = '019a0000-0000-7000-8000-000000000009';
export const UNKNOWN = `Unknown incident. Copy its id from the list of incidents: ${incidentsPath()}.`;
export const NO_INCIDENT = refused('not_found', { detail: UNKNOWN });
