import * as z from 'zod';
import { topic } from './topic.ts';
import { email, id, instant, list } from './values.ts';

const channel = z.enum(['email', 'sms', 'push', 'digital_post']);

export const notifications = {
  'notification.sent': topic({
    producer: 'notifications',
    subscribers: ['audit'],
    description: 'A notification was accepted by the carrier of its channel.',
    version: 1,
    person: ['userId'],
    payload: z.object({ notificationId: id, userId: id.optional(), channel, template: id, sentAt: instant }),
    example: {
      notificationId: 'ntf_700412',
      userId: 'usr_3071',
      channel: 'email',
      template: 'booking-approved',
      sentAt: '2026-02-20T09:12:44Z',
    },
  }),

  'notification.failed': topic({
    producer: 'notifications',
    subscribers: ['support', 'audit'],
    description: 'A notification could not be sent on any channel.',
    version: 1,
    person: ['userId'],
    payload: z.object({
      notificationId: id,
      userId: id.optional(),
      tried: list(channel).min(1),
      template: id,
      failedAt: instant,
    }),
    example: {
      notificationId: 'ntf_700420',
      userId: 'usr_2950',
      tried: ['email', 'sms'],
      template: 'invoice-overdue',
      failedAt: '2026-02-17T06:01:30Z',
    },
  }),

  'notification.bounced': topic({
    producer: 'notifications',
    subscribers: ['identity', 'support'],
    description: 'A mail bounced because its address does not exist or refuses it.',
    version: 1,
    person: ['userId', 'bouncedEmail'],
    payload: z.object({
      notificationId: id,
      userId: id.optional(),
      kind: z.enum(['permanent', 'transient']),
      bouncedAt: instant,
      // Not called `email`: nobody should write to this address again.
      bouncedEmail: email,
    }),
    example: {
      notificationId: 'ntf_700433',
      userId: 'usr_2711',
      kind: 'permanent',
      bouncedAt: '2026-02-20T09:13:02Z',
      bouncedEmail: 'gammel.adresse@example.no',
    },
  }),

  'notification.preferences.changed': topic({
    producer: 'notifications',
    subscribers: ['identity', 'audit'],
    description: 'A user changed their notification channels or turned off a kind of notification.',
    version: 1,
    orderingKey: ({ userId }) => userId,
    orderedBy: 'userId',
    person: ['userId'],
    payload: z.object({
      userId: id,
      channels: list(channel),
      mutedTemplates: list(id),
      changedAt: instant,
    }),
    example: {
      userId: 'usr_3071',
      channels: ['email', 'push'],
      mutedTemplates: ['review-requested'],
      changedAt: '2026-02-26T20:15:00Z',
    },
  }),
};
