import * as z from 'zod';
import { topic } from './topic.ts';
import { code, email, id, instant, list, personName, personal, title } from './values.ts';

/** Who signed in, as the identity provider calls them. */
const subject = personal(z.string().min(1).max(255));

/** The ways to sign in that the first versions of payloads knew. */
const firstMethods = z.enum(['national-id', 'bank-id', 'magic-link']);

/** How a person signed in, as the identity provider names it: `bank-id`, `passkey`, or a method of next year. */
const method = code(z.string().min(1).max(255));

const signedIn = { subject, email: email.optional() };
const completed = { challengeId: id, userId: id, completedAt: instant };

const role = z.enum(['innbygger', 'saksbehandler', 'driftsleder', 'tenant_admin']);

export const identity = {
  'user.signed_up': topic({
    producer: 'identity',
    subscribers: ['notifications', 'audit', 'intelligence'],
    description: 'A new user registered by national identity login, bank identity login or magic link.',
    version: 2,
    earlier: { 1: z.object({ ...signedIn, method: firstMethods }) },
    listed: true,
    person: ['subject', 'email'],
    payload: z.object({ ...signedIn, method }),
    example: {
      subject: '7f1c2a9e-5b0d-4e52-9a37-1d4f6c8be210',
      method: 'bank-id',
      email: 'kari.lunde@example.no',
    },
  }),

  'user.signed_in': topic({
    producer: 'identity',
    subscribers: ['audit', 'intelligence'],
    description: 'A user signed in; feeds risk detection.',
    version: 2,
    earlier: { 1: z.object({ ...signedIn, method: firstMethods }) },
    listed: true,
    person: ['subject', 'email'],
    payload: z.object({ ...signedIn, method }),
    example: { subject: '7f1c2a9e-5b0d-4e52-9a37-1d4f6c8be210', method: 'national-id' },
  }),

  'mfa.required': topic({
    producer: 'identity',
    subscribers: ['notifications'],
    description: 'A sensitive action needs step-up authentication.',
    version: 1,
    listed: true,
    person: ['userId', 'email'],
    payload: z.object({
      challengeId: id,
      userId: id,
      action: z.enum(['refund', 'payout_account_change', 'role_grant', 'gdpr_export', 'gdpr_deletion']),
      answerUntil: instant,
      email: email.optional(),
    }),
    example: {
      challengeId: 'chl_60021',
      userId: 'usr_204',
      action: 'payout_account_change',
      answerUntil: '2026-02-25T11:10:00Z',
      email: 'ingrid.moen@example.no',
    },
  }),

  'mfa.completed': topic({
    producer: 'identity',
    subscribers: ['audit'],
    description: 'A user passed step-up authentication.',
    version: 2,
    earlier: { 1: z.object({ ...completed, method: firstMethods }) },
    person: ['userId'],
    payload: z.object({ ...completed, method }),
    example: {
      challengeId: 'chl_60021',
      userId: 'usr_204',
      method: 'bank-id',
      completedAt: '2026-02-25T11:06:52Z',
    },
  }),

  'user.profile.updated': topic({
    producer: 'identity',
    subscribers: ['notifications', 'audit'],
    description: 'A user changed their name or contact details.',
    version: 1,
    orderingKey: ({ userId }) => userId,
    orderedBy: 'userId',
    person: ['userId', 'email'],
    payload: z.object({
      userId: id,
      name: personName,
      phone: personal(z.string().max(40)).optional(),
      changed: list(z.enum(['name', 'phone', 'email', 'language'])).min(1),
      email: email.optional(),
    }),
    example: {
      userId: 'usr_3071',
      name: 'Kari Lunde',
      phone: '+47 400 00 123',
      changed: ['phone'],
      email: 'kari.lunde@example.no',
    },
  }),

  'user.role.granted': topic({
    producer: 'identity',
    subscribers: ['tenants', 'notifications', 'audit'],
    description: 'A user was given a role in a tenant.',
    version: 1,
    person: ['userId', 'email'],
    payload: z.object({ userId: id, tenantId: id, role, grantedBy: id, email: email.optional() }),
    example: {
      userId: 'usr_118',
      tenantId: 'tnt_solvik',
      role: 'saksbehandler',
      grantedBy: 'usr_101',
      email: 'sigrid.aasen@example.no',
    },
  }),

  'user.role.revoked': topic({
    producer: 'identity',
    subscribers: ['tenants', 'audit'],
    description: 'A user lost a role in a tenant.',
    version: 1,
    person: ['userId'],
    payload: z.object({ userId: id, tenantId: id, role, revokedBy: id }),
    example: { userId: 'usr_109', tenantId: 'tnt_solvik', role: 'driftsleder', revokedBy: 'usr_101' },
  }),

  'user.organization.linked': topic({
    producer: 'identity',
    subscribers: ['bookings', 'invoicing', 'audit'],
    description: 'A user was confirmed as a representative of an organization in the business register.',
    version: 1,
    person: ['userId'],
    payload: z.object({
      userId: id,
      organizationNumber: code(z.string().regex(/^\d{9}$/, 'expected an organization number of nine digits')),
      // Sole traders go by their own name.
      organizationName: title,
      linkedAt: instant,
    }),
    example: {
      userId: 'usr_3071',
      organizationNumber: '999000111',
      organizationName: 'Furulia idrettslag',
      linkedAt: '2026-01-19T17:31:00Z',
    },
  }),

  'user.locked': topic({
    producer: 'identity',
    subscribers: ['notifications', 'support', 'audit'],
    description: 'A user was locked out after suspicious sign-ins or by a case handler.',
    version: 1,
    person: ['userId', 'email'],
    payload: z.object({
      userId: id,
      cause: z.enum(['risk', 'abuse', 'requested']),
      lockedAt: instant,
      email: email.optional(),
    }),
    example: {
      userId: 'usr_2950',
      cause: 'risk',
      lockedAt: '2026-02-22T02:14:09Z',
      email: 'jonas.eide@example.no',
    },
  }),
};
